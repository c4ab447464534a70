"""The figures of a model that is to be placed: the input of the cost partitioner and its objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from nnhal.extensions import size_in_bytes
from nnhal.types import Model
from nnhal.types.layout import Dimensions
from nnhal_service.partition.candidate import Candidate
from nnhal_service.partition.grow import dependencies

EdgeNs = Callable[[str | None, str | None, int], float]
"""The modelled nanoseconds of passing a value: (source, destination, bytes) -> ns. None is the client.

Infinite if the value cannot be passed. The bytes are 0 if the size is unknown.
"""


@dataclass(frozen=True, slots=True)
class ProblemValue:
    """A value that operations read or write, other than a constant."""

    readers: tuple[int, ...]
    """The operations that read it."""
    is_output: bool
    bytes: int
    """0 if the size is unknown."""
    edge_ns: tuple[tuple[float, ...], ...]
    """The cost of passing it to a step, by source and destination.

    Source 0 is the client, n + 1 is device n, and after those of all devices come the same devices once more, for a
    value that has left its device already.
    """
    export_ns: tuple[float, ...]
    """The cost of passing it to the client, by source."""

    def left(self, source: int) -> int:
        """Return the source that stands for a device from which the value has been passed on."""
        return source + len(self.edge_ns) // 2


@dataclass(frozen=True, slots=True)
class Problem:
    """The figures of a model: devices and operations by number, values by operand.

    An operation may stand for several of the model's, which move together.
    """

    members: tuple[tuple[int, ...], ...]
    """The model's operations that each one stands for."""
    devices: tuple[str, ...]
    step_ns: tuple[float, ...]
    """The time of launching a step, by device."""
    operation_ns: tuple[tuple[float, ...], ...]
    """The time by operation and device; infinite if the device may not take the operation or gives no figure."""
    allowed: tuple[frozenset[int], ...]
    """The devices that may take each operation."""
    needs: tuple[frozenset[int], ...]
    """The operations whose results each operation reads."""
    reads: tuple[tuple[int, ...], ...]
    """The distinct values that each operation reads."""
    writes: tuple[tuple[int, ...], ...]
    values: Mapping[int, ProblemValue]

    def members_of(self, operations: Sequence[int]) -> tuple[int, ...]:
        """Return the model's operations that some operations stand for."""
        return tuple(member for number in operations for member in self.members[number])


def problem_of(
    model: Model,
    candidates: Sequence[Candidate],
    allowed: Sequence[Sequence[Candidate]],
    dimensions: Sequence[Dimensions],
    edge_ns: EdgeNs,
    element_sizes: Mapping[int, int],
    left_ns: EdgeNs | None = None,
) -> Problem:
    """Return the figures of a model. ``allowed`` are the candidates that may take each operation.

    ``left_ns`` is the cost of passing a value that has left its device already, if that is another than ``edge_ns``.
    """
    graph = model.main
    readers: dict[int, list[int]] = {}
    for number, operation in enumerate(graph.operations):
        for operand in dict.fromkeys(operation.inputs):
            readers.setdefault(operand, []).append(number)
    written = {operand for operation in graph.operations for operand in operation.outputs}
    moving = written.union(graph.input_indexes)
    outputs = set(graph.output_indexes)
    names = [candidate.name for candidate in candidates]
    numbers = tuple(frozenset(names.index(candidate.name) for candidate in able) for able in allowed)
    tables: dict[int, tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]] = {}
    values = {}
    for operand in sorted(moving):
        size = size_in_bytes(graph.operands[operand].type, dimensions[operand], element_sizes)
        if size not in tables:
            tables[size] = _edges(names, edge_ns, left_ns, size)
        values[operand] = ProblemValue(tuple(readers.get(operand, ())), operand in outputs, size, *tables[size])
    return Problem(
        tuple((number,) for number in range(len(graph.operations))),
        tuple(names),
        tuple(candidate.hop_ns + candidate.sync_ns for candidate in candidates),
        tuple(
            tuple(
                modelled_ns(candidate, number) if index in able else inf for index, candidate in enumerate(candidates)
            )
            for number, able in enumerate(numbers)
        ),
        numbers,
        tuple(dependencies(graph)),
        tuple(tuple(dict.fromkeys(i for i in operation.inputs if i in moving)) for operation in graph.operations),
        tuple(operation.outputs for operation in graph.operations),
        values,
    )


def modelled_ns(candidate: Candidate, operation: int) -> float:
    """Return the modelled time of an operation; infinite if the device gives none."""
    return (candidate.operation_ns[operation] if candidate.operation_ns else None) or inf


def _edges(
    names: Sequence[str], edge_ns: EdgeNs, left_ns: EdgeNs | None, size: int
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    sources = (None, *names)
    first = [tuple(edge_ns(source, name, size) for name in names) for source in sources]
    left = [tuple(left_ns(source, name, size) for name in names) for source in names] if left_ns else first[1:]
    return (
        (*first, *left),
        tuple(edge_ns(source, None, size) if source is not None else 0.0 for source in sources),
    )
