"""Operations that move together: a device that takes them only together has all of them in one step, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nnhal.resolved import describe_operation
from nnhal.types import Model
from nnhal_service.partition.candidate import Candidate
from nnhal_service.partition.pins import Pin, holding_pins
from nnhal_service.partition.problem import Problem

Unit = tuple[int, ...]
"""Operations of main, in ascending order. Only the last has results that others read."""


def with_whole_units(
    model: Model, names: Sequence[Sequence[str]], candidates: Sequence[Candidate], pins: Sequence[Pin]
) -> tuple[list[Candidate], tuple[Unit, ...]]:
    """Return the units, and the candidates so changed that each takes all of what it takes only together, or nothing.

    A device loses a group if it may not have all of it, or if no device could have what it overlaps with.
    """
    finder = _Units(model, names, candidates, pins)
    return [finder.settled(candidate) for candidate in candidates], tuple(sorted(set(finder.unit_of.values())))


class _Units:
    def __init__(
        self, model: Model, names: Sequence[Sequence[str]], candidates: Sequence[Candidate], pins: Sequence[Pin]
    ) -> None:
        self.unit_of: dict[int, Unit] = {}
        self._model, self._candidates = model, candidates
        self._pinned = {number: pin.device for number, pin in holding_pins(model, names, pins).items()}
        self._readers: dict[int, set[int]] = {}
        for number, operation in enumerate(model.main.operations):
            for operand in operation.inputs:
                self._readers.setdefault(operand, set()).add(number)

    def settled(self, candidate: Candidate) -> Candidate:
        for group in candidate.together:
            missing = next((number for number in group if not self._may_have(candidate, number)), None)
            unit = tuple(sorted({*group, *(each for number in group for each in self.unit_of.get(number, ()))}))
            if missing is not None:
                other = f"{describe_operation(self._model, missing)}, which it is not given"
            elif not self._has_one_exit(unit) or not any(self._may_have_all(each, unit) for each in self._candidates):
                other = "operations that other devices need apart"
            else:
                self.unit_of.update(dict.fromkeys(unit, unit))
                continue
            reason = f"it takes this only together with {other}"
            candidate = candidate.refusing(dict.fromkeys(group, reason))
        return candidate

    def _may_have(self, candidate: Candidate, number: int) -> bool:
        return number not in candidate.refusals and self._pinned.get(number, candidate.name) == candidate.name

    def _may_have_all(self, candidate: Candidate, unit: Unit) -> bool:
        return all(self._may_have(candidate, number) for number in unit)

    def _has_one_exit(self, unit: Unit) -> bool:
        main = self._model.main
        inner = [operand for number in unit[:-1] for operand in main.operations[number].outputs]
        return all(self._readers.get(each, set()) <= set(unit) and each not in main.output_indexes for each in inner)


def contracted(problem: Problem, units: Sequence[Unit]) -> Problem:
    """Return the problem in which each unit is one operation. Units do not overlap, and the others stay as they are."""
    if not units:
        return problem
    taken = {number for unit in units for number in unit}
    alone = ((number,) for number in range(len(problem.reads)) if number not in taken)
    # Others need only the last operation of each, so this order is one of execution.
    order = sorted((*units, *alone), key=lambda unit: unit[-1])
    place = {number: index for index, unit in enumerate(order) for number in unit}
    inner = set(_inner(problem, units))
    return replace(
        problem,
        members=tuple(tuple(each for number in unit for each in problem.members[number]) for unit in order),
        operation_ns=tuple(
            tuple(sum(figures) for figures in zip(*(problem.operation_ns[number] for number in unit), strict=True))
            for unit in order
        ),
        allowed=tuple(frozenset.intersection(*(problem.allowed[number] for number in unit)) for unit in order),
        needs=tuple(
            frozenset(place[each] for number in unit for each in problem.needs[number]) - {index}
            for index, unit in enumerate(order)
        ),
        reads=tuple(_outside(problem.reads, unit, inner) for unit in order),
        writes=tuple(_outside(problem.writes, unit, inner) for unit in order),
        values={
            operand: replace(value, readers=tuple(dict.fromkeys(place[number] for number in value.readers)))
            for operand, value in problem.values.items()
            if operand not in inner
        },
    )


def _inner(problem: Problem, units: Sequence[Unit]) -> Iterator[int]:
    """The values that only the other operations of a unit read."""
    for unit in units:
        for number in unit[:-1]:
            yield from (each for each in problem.writes[number] if problem.values[each].readers)


def _outside(operands: Sequence[tuple[int, ...]], unit: Unit, inner: set[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(each for number in unit for each in operands[number] if each not in inner))
