"""Speed of ethos_u: the modelled time of operations for the framework's partitioner, and the figures of the HAL.

Each part is priced as a whole, with its tensors in the working memory: nothing is planned, so this takes milliseconds.
What compiling makes of a network, with cascades or without, may take longer or less.
"""

from __future__ import annotations

from nnhal.resolved import ResolvedModel
from nnhal.support import Supported
from nnhal.support.parts import part_of
from nnhal.types import Capabilities
from nnhal_cascade.geometry.box import whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.islands import float_islands
from nnhal_cascade.graph.paddings import fold_paddings
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.performance.encoding import encoded_graph
from nnhal_cascade.performance.price import StripePlaces
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.support import supported_operations
from nnhal_devices.backend import TransferCosts
from nnhal_devices.npu_capabilities import quant8_capabilities
from nnhal_devices.roofline import Roofline

TRANSFER_COSTS = TransferCosts()
"""The NPU has no page table of its own: importing memory costs what it costs on any device."""
_NS = 1_000_000_000
_NOTHING = 1.0
"""Nanoseconds of an operation that is part of another one. To the framework, 0 says that it is not supported."""


def nanoseconds(cycles: int, system: System) -> int:
    """Return the time of cycles at the system's clock."""
    return round(cycles * _NS / system.clock_hz)


def operation_ns(model: ResolvedModel, system: System, only_like_vela: bool = False) -> list[float]:
    """Return the time of each operation of main: a part's at its first operation, and the least for all others."""
    supported = [isinstance(answer, Supported) for answer in supported_operations(model, only_like_vela)]
    found = [_NOTHING] * len(supported)
    numbers = [number for number, taken in enumerate(supported) if taken]
    graph = encoded_graph(fold_paddings(part_of(model, numbers)))
    for part, cycles in zip(graph.parts, _whole_cycles(graph, system), strict=True):
        found[numbers[part.operations[0]]] += nanoseconds(cycles, system)
    return found


def whole_islands(model: ResolvedModel, only_like_vela: bool = False) -> list[tuple[int, ...]]:
    """Return the operations of main of each island of floats that is supported: the NPU takes no part of one alone."""
    answers = supported_operations(model, only_like_vela)
    islands = (island.operations for island in float_islands(model).values())
    return [island for island in islands if isinstance(answers[island[0]], Supported)]


def _whole_cycles(graph: CascaderGraph, system: System) -> list[int]:
    """The cycles of each part, in one stripe."""
    pricer, working = StripePricer(graph, system), system.working.name
    found = []
    for part in graph.parts:
        output = graph.tensors[part.output].shape
        inputs = tuple(each.needs(whole(output)).shape for each in part.inputs)
        constants = system.constants.name if part.constants else ""
        price = pricer.price(part.index, output, inputs, StripePlaces((working,) * len(inputs), working, constants))
        found.append(price.cycles + price.fill)
    return found


_NS = 1_000_000_000


def capabilities_of(system: System) -> Capabilities:
    """Return the figures of a system."""
    cycles_per_ns = system.clock_hz / _NS
    return quant8_capabilities(
        Roofline(
            overhead_ns=0,
            bytes_per_ns=system.working.bandwidth * cycles_per_ns,
            default_macs_per_ns=system.accelerator.macs * cycles_per_ns,
            macs_per_ns={},
        ),
        power=0.01,
    )
