"""Which operation of one plan is which of another one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nnhal_client.explanation import Explanation, OperationStory

_SAME_TIME = 0.01
"""Modelled times that differ by no more than this share are the same."""


@dataclass(frozen=True, slots=True)
class OperationPair:
    """An operation by its numbers in two explanations. One of them is None if the other plan has none like it."""

    old: int | None
    new: int | None


def pairs_of(old: Explanation, new: Explanation) -> list[OperationPair]:
    """Pair operations of the same type and the same nodes, those without names by their order.

    The pairs are in the order of the new plan, then those that only the old one has.
    """
    waiting: defaultdict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    for number, story in enumerate(old.operations):
        waiting[story.operation, story.nodes].append(number)
    queues = {key: iter(numbers) for key, numbers in waiting.items()}
    pairs = [
        OperationPair(next(queues.get((story.operation, story.nodes), iter(())), None), number)
        for number, story in enumerate(new.operations)
    ]
    found = {pair.old for pair in pairs}
    return pairs + [OperationPair(number, None) for number in range(len(old.operations)) if number not in found]


def differs(old: OperationStory, new: OperationStory) -> bool:
    """Whether the plans have something different to say of an operation."""
    least, most = sorted((old.modelled_ns, new.modelled_ns))
    return old.device != new.device or old.pin != new.pin or most - least > _SAME_TIME * most


def marks_of(old: Explanation, new: Explanation, pairs: list[OperationPair]) -> tuple[dict[int, str], dict[int, str]]:
    """Return some words for each operation that moved or that only one plan has, in the old plan and in the new one."""
    before: dict[int, str] = {}
    after: dict[int, str] = {}
    for pair in pairs:
        if pair.old is not None and pair.new is not None:
            source, target = old.operations[pair.old].device, new.operations[pair.new].device
            if source != target:
                before[pair.old], after[pair.new] = f"moves to {target}", f"was on {source}"
        elif pair.new is not None:
            after[pair.new] = "only here"
        elif pair.old is not None:
            before[pair.old] = "only here"
    return before, after
