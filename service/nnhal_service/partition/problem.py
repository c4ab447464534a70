"""A model to be placed, in figures: what the cost partitioner and its objective look at."""

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
"""Nanoseconds to pass so many bytes from a device to another: import, copy, whatever it takes; None is the client.

It may be infinite for what cannot be passed. The bytes are 0 where they are not known.
"""


@dataclass(frozen=True, slots=True)
class Value:
    """Something that operations read or write, and is no constant. ``bytes`` is 0 where it is not known.

    ``edge_ns[source][destination]`` is what it costs to pass it to a step, ``export_ns[source]`` to the client.
    Destinations are devices by number, sources are so from 1 on, and 0 is the client.
    """

    readers: tuple[int, ...]
    is_output: bool
    bytes: int
    edge_ns: tuple[tuple[float, ...], ...]
    export_ns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Devices and operations by number, values by operand.

    ``operation_ns[operation][device]`` is infinite where the device may not take it, or gives no figure; ``step_ns`` is
    what each step on a device takes besides. ``allowed`` are the devices that may take each operation, ``needs`` the
    operations whose results it reads, ``reads`` and ``writes`` its distinct values.
    """

    devices: tuple[str, ...]
    step_ns: tuple[float, ...]
    operation_ns: tuple[tuple[float, ...], ...]
    allowed: tuple[frozenset[int], ...]
    needs: tuple[frozenset[int], ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    values: Mapping[int, Value]


def problem_of(
    model: Model,
    candidates: Sequence[Candidate],
    allowed: Sequence[Sequence[Candidate]],
    dimensions: Sequence[Dimensions],
    edge_ns: EdgeNs,
    element_sizes: Mapping[int, int],
) -> Problem:
    """The figures of a model. ``allowed`` are the candidates that each operation may go to."""
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
            tables[size] = _edges(names, edge_ns, size)
        values[operand] = Value(tuple(readers.get(operand, ())), operand in outputs, size, *tables[size])
    return Problem(
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
    """What an operation takes; infinite where the device gives no figure for it."""
    return (candidate.operation_ns[operation] if candidate.operation_ns else None) or inf


def _edges(names: Sequence[str], edge_ns: EdgeNs, size: int) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    sources = (None, *names)
    return (
        tuple(tuple(edge_ns(source, name, size) for name in names) for source in sources),
        tuple(edge_ns(source, None, size) if source is not None else 0.0 for source in sources),
    )
