"""Pairs of operations of two plans, and the differences between the plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

from nnhal_client.explanation import Explanation, OperationStory
from nnhal_pages.copies import NAMES, or_unknown, planned_copies
from nnhal_pages.units import duration

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
    """Return whether the plans have something different to say of an operation."""
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


class PlanFigure(NamedTuple):
    """A figure of two plans as wholes."""

    name: str
    old: float
    new: float
    written: Callable[[float], str]


def count(value: float) -> str:
    """Write a whole number; nan is unknown."""
    return or_unknown(value, "{:,.0f}".format)


def difference(old: float, new: float, written: Callable[[float], str]) -> str:
    """Say how much more or less there is in the new plan, with a sign that goes the same way."""
    if isnan(old) or isnan(new):
        return "unknown"
    if old == new or written(old) == written(new):
        return "= the same"
    share = f" ({(new - old) / old:+.1%})" if old > 0 else ""
    return f"{'▲' if new > old else '▼'} {written(abs(new - old))} {'more' if new > old else 'less'}{share}"


def figures(old: Explanation, new: Explanation) -> list[PlanFigure]:
    """Return what can be compared of two plans as wholes. A measured time is there if both were measured."""
    found: list[PlanFigure] = [PlanFigure("Modelled time of a run", old.modelled_ns, new.modelled_ns, duration)]
    if old.measured and new.measured:
        found.append(PlanFigure("Measured time of a run", old.measured.duration_ns, new.measured.duration_ns, duration))
    return [
        *found,
        PlanFigure("Steps", len(old.steps), len(new.steps), count),
        PlanFigure("Devices in use", _devices(old), _devices(new), count),
        PlanFigure("Operations", len(old.operations), len(new.operations), count),
        PlanFigure("Edges", len(old.edges), len(new.edges), count),
        PlanFigure("Edges that copy", _copying(old), _copying(new), count),
        *(
            PlanFigure(f"Bytes copied in a run, {name}", before, after, count)
            for name, before, after in zip(NAMES, planned_copies(old), planned_copies(new), strict=True)
        ),
        *(_sent(old, new) if old.wire_ns or new.wire_ns else ()),
        PlanFigure("Bytes between steps", old.fallback_bytes, new.fallback_bytes, count),
        PlanFigure("Bytes of constants", old.constant_bytes, new.constant_bytes, count),
        PlanFigure("Bytes of the client", old.client_bytes, new.client_bytes, count),
        PlanFigure("Peak memory, bytes", old.peak_bytes, new.peak_bytes, count),
    ]


def _sent(old: Explanation, new: Explanation) -> list[PlanFigure]:
    return [
        PlanFigure("Modelled time on the wire", old.wire_ns, new.wire_ns, duration),
        PlanFigure("Bytes up the wire in a run", old.wire_up_bytes, new.wire_up_bytes, count),
        PlanFigure("Bytes down the wire in a run", old.wire_down_bytes, new.wire_down_bytes, count),
    ]


def _devices(explanation: Explanation) -> int:
    return len({step.device for step in explanation.steps})


def _copying(explanation: Explanation) -> int:
    return sum(edge.copied_bytes > 0 for edge in explanation.edges)
