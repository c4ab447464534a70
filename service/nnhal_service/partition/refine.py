"""Offering operations that a device's optimiser fails on to the next device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nnhal_service.partition.candidate import Candidate
from nnhal_service.partition.plan import Step
from nnhal_service.partition.report import Partitioning

Failures = Iterable[tuple[Sequence[int], str]]
"""Operations of a step's model that its device cannot run after all, and why."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation, by its index in the source model, that a device's optimiser failed on, and why."""

    operation: int
    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refined:
    """A partitioning whose steps all optimise, the candidates that it is for, and what was refused on the way."""

    partitioning: Partitioning
    candidates: tuple[Candidate, ...]
    refused: tuple[Refused, ...]


def refine(
    candidates: Sequence[Candidate],
    place: Callable[[Sequence[Candidate]], Partitioning],
    optimise: Callable[[Step], Failures],
) -> Refined:
    """Partition until no step fails in its device's optimiser.

    What fails is forbidden to that device and all is placed anew: every round but the last takes an operation from a
    device for good, so there is a last one. A step that passed is not optimised again. Raises what ``place`` raises:
    PlacementError, with the optimisers' reasons, where an operation has no device left.
    """
    refused: list[Refused] = []
    passed: set[tuple[str, tuple[int, ...]]] = set()
    current = tuple(candidates)
    while True:
        partitioning = place(current)
        fresh: list[Refused] = []
        for step in partitioning.plan.steps:
            if (step.device, step.operations) in passed:
                continue
            failed = [
                Refused(step.operations[index], step.device, reason)
                for indexes, reason in optimise(step)
                for index in indexes
            ]
            if not failed:
                passed.add((step.device, step.operations))
            fresh += failed
        if not fresh:
            return Refined(partitioning, current, tuple(refused))
        refused += fresh
        current = tuple(_without(candidate, fresh) for candidate in current)


def _without(candidate: Candidate, refused: Sequence[Refused]) -> Candidate:
    mine = {
        entry.operation: f"its optimiser fails: {entry.reason}" for entry in refused if entry.device == candidate.name
    }
    return candidate.refusing(mine)
