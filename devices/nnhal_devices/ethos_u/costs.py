"""The modelled time of operations, for the framework's partitioner.

Each part is priced as a whole, with its tensors in the working memory: nothing is planned, so this takes milliseconds.
What compiling makes of a network, with cascades or without, may take longer or less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Subgraph
from nnhal_devices.backend import TransferCosts
from nnhal_devices.driver import Supported
from nnhal_devices.ethos_u.cascader.geometry.box import whole
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.graph.matchers import build_graph
from nnhal_devices.ethos_u.cascader.graph.paddings import fold_paddings
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.price import StripePlaces
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import StripePricer
from nnhal_devices.ethos_u.support import supported_operations

TRANSFER_COSTS = TransferCosts()
"""The NPU has no page table of its own: importing memory costs what it costs on any device."""
_NS = 1_000_000_000
_NOTHING = 1.0
"""Nanoseconds of an operation that is part of another one. To the framework, 0 says that it is not supported."""


def nanoseconds(cycles: int, system: System) -> int:
    """Return the time of cycles at the system's clock."""
    return round(cycles * _NS / system.clock_hz)


def operation_ns(model: ResolvedModel, system: System) -> list[float]:
    """Return the time of each operation of main: a part's at its first operation, and the least for all others."""
    supported = [isinstance(answer, Supported) for answer in supported_operations(model)]
    found = [_NOTHING] * len(supported)
    numbers = [number for number, taken in enumerate(supported) if taken]
    graph = build_graph(fold_paddings(_only(model, numbers)))
    for part, cycles in zip(graph.parts, _whole_cycles(graph, system), strict=True):
        found[numbers[part.operations[0]]] += nanoseconds(cycles, system)
    return found


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


def _only(model: ResolvedModel, numbers: Sequence[int]) -> ResolvedModel:
    """Some operations of a model as a model. What other operations compute is an input, what they read is an output."""
    main = model.model.main
    operands = tuple(
        replace(operand, dimensions=dimensions)
        for operand, dimensions in zip(main.operands, propagate_dimensions(model), strict=True)
    )
    operations = tuple(main.operations[number] for number in numbers)
    made = dict.fromkeys(index for operation in operations for index in operation.outputs)
    read = dict.fromkeys(index for operation in operations for index in operation.inputs)
    fed = tuple(index for index in read if index not in made and index not in model.constants[0])
    taken = set(numbers)
    others = (operation for number, operation in enumerate(main.operations) if number not in taken)
    wanted = {*main.output_indexes, *(index for operation in others for index in operation.inputs)}
    results = tuple(index for index in made if index in wanted)
    part = Subgraph(operands, operations, fed, results)
    return ResolvedModel(replace(model.model, main=part), model.constants, model.names)
