"""Offer operations that a device's optimiser fails on to the other devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nnhal_service.partition.candidate import Candidate
from nnhal_service.partition.plan import Step
from nnhal_service.partition.report import Partitioning

Failures = Iterable[tuple[Sequence[int], str]]
"""Operations of a step's model that its device's optimiser fails on, and why."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that a device's optimiser failed on, by its index in a subgraph of the source model; 0 is main."""

    operation: int
    device: str
    reason: str
    subgraph: int = 0


@dataclass(frozen=True, slots=True)
class Refined:
    """A partitioning whose steps all optimise, the candidates that it was made for, and the operations refused."""

    partitioning: Partitioning
    candidates: tuple[Candidate, ...]
    refused: tuple[Refused, ...]


def refine(
    candidates: Sequence[Candidate],
    place: Callable[[Sequence[Candidate]], Partitioning],
    optimise: Callable[[Step], Failures],
) -> Refined:
    """Partition until no step fails in its device's optimiser.

    An operation that fails is forbidden to its device, and the whole model is placed again. Every round but the last
    takes an operation from a device for good, so the loop ends. A step that passed is not optimised again. Raises what
    ``place`` raises: PlacementError, with the optimisers' reasons, if no device is left for an operation.
    """
    refused: list[Refused] = []
    passed: set[tuple[str, int, tuple[int, ...]]] = set()
    current = tuple(candidates)
    while True:
        partitioning = place(current)
        fresh: list[Refused] = []
        for step in partitioning.plan.steps:
            subgraph = partitioning.plan.subgraph_of(step)
            if (step.device, subgraph, step.operations) in passed:
                continue
            failed = [
                Refused(step.operations[index], step.device, reason, subgraph)
                for indexes, reason in optimise(step)
                for index in indexes
            ]
            if not failed:
                passed.add((step.device, subgraph, step.operations))
            fresh += failed
        if not fresh:
            return Refined(partitioning, current, tuple(refused))
        refused += fresh
        current = tuple(_without(candidate, fresh) for candidate in current)


def _without(candidate: Candidate, refused: Sequence[Refused]) -> Candidate:
    for entry in refused:
        if entry.device == candidate.name:
            candidate = candidate.refusing(
                {entry.operation: f"its optimiser fails: {entry.reason}"}, subgraph=entry.subgraph
            )
    return candidate
