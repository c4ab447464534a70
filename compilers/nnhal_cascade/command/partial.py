"""A network of which the NPU runs a part: the steps in which it runs, and what lives across each in the one memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nnhal.extensions import size_in_bytes
from nnhal.resolved import ResolvedModel, describe_operation, propagate_dimensions
from nnhal_cascade.command import formatting
from nnhal_cascade.command.compiling import CascadeRequest
from nnhal_cascade.command.network import Network, UnsupportedNetworkError
from nnhal_cascade.command.report import CrossingReport, SharedMemoryReport, SharedStepReport
from nnhal_cascade.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class PartialStep:
    """Operations that run together: a subgraph on the NPU, or a single operation on another device."""

    name: str
    network: Network | None
    """None for another device."""
    own: tuple[CrossingReport, ...]
    """Tensors that the step reads and writes. On the NPU they lie in the step's arena."""
    across: tuple[CrossingReport, ...]
    """Other tensors that must be kept while the step runs, for later steps."""

    @property
    def across_bytes(self) -> int:
        """The bytes that it leaves to others."""
        return sum(each.bytes for each in self.across)

    def within(self, request: CascadeRequest) -> CascadeRequest:
        """Return the request with the budget that the step leaves to its arena."""
        return replace(request, budget=max(request.budget - self.across_bytes, 0))

    def told(self, request: CascadeRequest) -> str:
        """Say what lives across it; nothing if nothing does."""
        if not self.across:
            return ""
        budget, named = formatting.size(request.budget), _in_words(self.across)
        return f"{budget} less {self.across_bytes:,} bytes that live across it ({named})"


def _in_words(tensors: Iterable[CrossingReport]) -> str:
    """Each with its bytes, and the steps in which it lives."""
    return "; ".join(f"{each.name}, {each.bytes:,} bytes, steps {each.first} to {each.last}" for each in tensors)


def steps_of(refused: UnsupportedNetworkError) -> tuple[PartialStep, ...]:
    """Return the steps in an order of execution: of those that can run the one with the first operation.

    An input of the network is there from the start, an output until the end. What the NPU reads last in a step may be
    overwritten in its arena; what is read later as well is kept beside it.
    """
    model = refused.model
    order = _ordered(model, refused.operations)
    tensors = _crossings(model, order)
    found = []
    for number, operations in enumerate(order):
        network = refused.networks.get(operations)
        made = {index for each in operations for index in model.model.main.operations[each].outputs}
        read = {index for each in operations for index in model.model.main.operations[each].inputs}
        alive = {index: each for index, each in tensors.items() if each.first <= number <= each.last}
        last = {index for index in read if index in alive and alive[index].last == number}
        own = made | (last if network else read)
        found.append(
            PartialStep(
                network.name if network else describe_operation(model.model, operations[0]),
                network,
                tuple(each for index, each in alive.items() if index in own),
                tuple(each for index, each in alive.items() if index not in own),
            )
        )
    return tuple(found)


def _ordered(model: ResolvedModel, groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The groups and each other operation, in an order of execution."""
    operations = model.model.main.operations
    taken = {number for group in groups for number in group}
    left = sorted([*groups, *((number,) for number in range(len(operations)) if number not in taken)])
    missing = {index for operation in operations for index in operation.outputs}
    order = []
    while left:
        ready = next(group for group in left if not missing & set(_fed(model, group)))
        left.remove(ready)
        order.append(ready)
        missing -= {index for number in ready for index in operations[number].outputs}
    return order


def _fed(model: ResolvedModel, group: tuple[int, ...]) -> Iterator[int]:
    """Return the tensors that some operations read and have not computed themselves."""
    operations = [model.model.main.operations[number] for number in group]
    made = {index for operation in operations for index in operation.outputs}
    yield from (index for operation in operations for index in operation.inputs if index not in made)


def _crossings(model: ResolvedModel, order: Sequence[tuple[int, ...]]) -> Mapping[int, CrossingReport]:
    """The tensors that several steps use, and those of the network's border, by operand."""
    main, dimensions = model.model.main, propagate_dimensions(model)
    step_of = {number: step for step, group in enumerate(order) for number in group}
    first = dict.fromkeys(main.input_indexes, 0)
    last = dict.fromkeys(main.output_indexes, len(order) - 1)
    for number, operation in enumerate(main.operations):
        for index in operation.outputs:
            first[index] = step_of[number]
            last.setdefault(index, step_of[number])
        for index in operation.inputs:
            if index in first:
                last[index] = max(last.get(index, 0), step_of[number])
    border = {*main.input_indexes, *main.output_indexes}
    return {
        index: CrossingReport(
            model.names.get(index) or f"operand {index}",
            size_in_bytes(main.operands[index].type, dimensions[index], {}),
            start,
            last[index],
        )
        for index, start in first.items()
        if index in last and (index in border or last[index] > start)
    }


def shared_memory(
    steps: Sequence[PartialStep], schedules: Mapping[str, Schedule], request: CascadeRequest
) -> SharedMemoryReport:
    """Return what all steps take of the working memory. ``schedules`` are those of the subgraphs that fit, by name."""
    rows = []
    for step in steps:
        schedule = schedules.get(step.name) if step.network else None
        arena = schedule.peak if schedule else None if step.network else sum(each.bytes for each in step.own)
        cycles = schedule.cycles if schedule else None
        rows.append(SharedStepReport(step.name, step.network is not None, arena, step.across_bytes, cycles))
    tensors = dict.fromkeys(each for step in steps for each in (*step.own, *step.across))
    most = max(range(len(rows)), key=lambda number: rows[number].bytes)
    return SharedMemoryReport(request.budget, rows[most].bytes, most, tuple(rows), tuple(tensors))


def shortages(report: SharedMemoryReport, steps: Sequence[PartialStep]) -> Iterator[str]:
    """Say of each step of another device for which the budget is too small which tensors are too much."""
    for number, (row, step) in enumerate(zip(report.steps, steps, strict=True)):
        if not row.is_npu and row.bytes > report.budget:
            yield (
                f"step {number}, {step.name}, does not fit {formatting.size(report.budget)}: with it live "
                f"{row.bytes:,} bytes ({_in_words((*step.own, *step.across))})"
            )
