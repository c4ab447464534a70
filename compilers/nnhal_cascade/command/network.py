"""A model file as the graph that is planned, or what a device without help cannot run of it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnhal.extensions import size_in_bytes
from nnhal.resolved import ResolvedModel, describe_operation, propagate_dimensions
from nnhal.support import Unsupported
from nnhal.support.parts import groups_of, part_of
from nnhal.types.layout import Dimensions
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.islands import float_islands
from nnhal_cascade.graph.paddings import fold_paddings
from nnhal_cascade.performance.encoding import encoded_graph
from nnhal_cascade.support import supported_operations
from nnhal_frontends import import_file


@dataclass(frozen=True, slots=True)
class UnsupportedOperations:
    """Operations that a device refuses for one reason."""

    operations: tuple[str, ...]
    """Such as ``operation 3 (SOFTMAX)``."""
    reason: str
    bytes: int
    """Of the activations that they read and write: what passes between the NPU and another device at most."""

    def __str__(self) -> str:
        first, *more = self.operations
        others = f" and {len(more)} more, up to {more[-1]}" if more else ""
        return f"{first}{others}: {self.reason} ({self.bytes:,} bytes read and written)"


@dataclass(frozen=True, slots=True)
class Network:
    """A model that the device runs from its inputs to its outputs."""

    name: str
    """The name of its file."""
    model: ResolvedModel
    graph: CascaderGraph


class UnsupportedNetworkError(ValueError):
    """Some operations of a network do not run on the device."""

    def __init__(
        self,
        name: str,
        model: ResolvedModel,
        reasons: Sequence[UnsupportedOperations],
        networks: Mapping[tuple[int, ...], Network],
    ) -> None:
        """``networks`` are what runs: connected operations, the most first."""
        total, count = len(model.model.main.operations), sum(len(each.operations) for each in reasons)
        subgraphs = tuple(networks.values())
        where = f" in {len(subgraphs)} subgraphs" if subgraphs else ", and has to run all of them"
        lines = [f"{name}: ethos_u runs {total - count} of {total} operations{where}"]
        lines += [f"  {each}" for each in reasons]
        super().__init__("\n".join(lines))
        self.model, self.reasons, self.networks, self.subgraphs = model, tuple(reasons), networks, subgraphs

    @property
    def operations(self) -> tuple[tuple[int, ...], ...]:
        """The operations of each subgraph."""
        return tuple(self.networks)


def read_network(path: Path, only_like_vela: bool = False) -> Network:
    """Read an ONNX or TFLite model. With ``only_like_vela`` what is beyond the report of Vela 5.2 is refused.

    Raises:
        OSError: the file cannot be read.
        FrontendError: it is no model that the HAL can express.
        UnsupportedNetworkError: the device refuses an operation; all that it refuses are named, and it has what runs.
        ValueError: the network has no parts that can be planned.
    """
    model = import_file(path).resolved()
    answers = supported_operations(model, only_like_vela)
    refused = {number: answer for number, answer in enumerate(answers) if isinstance(answer, Unsupported)}
    if refused:
        networks = _subgraphs(path.name, model, refused)
        raise UnsupportedNetworkError(path.name, model, _reasons(model, refused), networks)
    return _network(path.name, model)


def _network(name: str, model: ResolvedModel) -> Network:
    model = fold_paddings(model)
    return Network(name, model, encoded_graph(model))


def _subgraphs(name: str, model: ResolvedModel, refused: Container[int]) -> dict[tuple[int, ...], Network]:
    """The connected groups of operations that run, each as a network, the largest first."""
    failed = [number in refused for number in range(len(model.model.main.operations))]
    islands = (each.operations for each in float_islands(model).values() if each.operations[0] not in refused)
    found = {}
    for group in sorted(groups_of(model, failed, islands), key=len, reverse=True):
        which = (
            f"operation {group[0]}" if len(group) == 1 else f"{len(group)} operations from {group[0]} to {group[-1]}"
        )
        network = _network(f"{name}, {which}", part_of(model, group))
        if network.graph.parts:
            found[tuple(group)] = network
    return found


def _reasons(model: ResolvedModel, refused: Mapping[int, Unsupported]) -> list[UnsupportedOperations]:
    numbers: dict[str, list[int]] = {}
    for number, answer in refused.items():
        reason = f"got {answer.got}, expected {answer.allowed}" + (f"; {answer.hint}" if answer.hint else "")
        numbers.setdefault(reason, []).append(number)
    dimensions = propagate_dimensions(model)
    return [
        UnsupportedOperations(
            tuple(describe_operation(model.model, number) for number in those),
            reason,
            sum(_activation_bytes(model, number, dimensions) for number in those),
        )
        for reason, those in numbers.items()
    ]


def _activation_bytes(model: ResolvedModel, number: int, dimensions: Sequence[Dimensions]) -> int:
    main = model.model.main
    operation = main.operations[number]
    operands = {index for index in (*operation.inputs, *operation.outputs) if index not in model.constants[0]}
    return sum(size_in_bytes(main.operands[index].type, dimensions[index], {}) for index in operands)
