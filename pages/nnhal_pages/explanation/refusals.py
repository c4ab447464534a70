"""Refusals of devices in a plan, summed: how many operations, and what most of them have in common."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from nnhal_client.explanation import Explanation

_CODED = re.compile(r"([A-Z_]+): got (.*), allowed ", re.DOTALL)
"""A reason as the framework writes a device's refusal."""
_TENSOR = re.compile(r"\bTENSOR_(\w+)")
_CAUSES = {
    "RANK": "the rank",
    "SHAPE": "the shape",
    "KERNEL": "the window or a parameter",
    "STRIDE": "the stride",
    "ACTIVATION": "the fused activation",
    "QUANT": "the quantisation",
    "CONSTANT": "what has to be constant",
    "DYN_SHAPE": "open dimensions",
    "LAYOUT": "channels first",
    "REVERTED": "not worth the hand-over",
}
"""The codes of refusals in a word or two; ``OP`` and ``NO_IMPL`` are told by the operation, ``DTYPE`` by its type."""
_LONGEST = 48


@dataclass(frozen=True, slots=True)
class RefusalCause:
    """Operations that a device refuses for the same cause."""

    words: str
    """The cause in short: ``float32``, ``no GELU``, ``the stride``."""
    operations: tuple[int, ...]
    """Their numbers in the explanation."""
    reason: str
    """All that the device said of the first of them."""


@dataclass(frozen=True, slots=True)
class DeviceRefusals:
    """Refusals of one device in a plan."""

    device: str
    refused: int
    total: int
    """The operations of the plan."""
    causes: tuple[RefusalCause, ...]
    """The most frequent first."""

    @property
    def sentence(self) -> str:
        """``mlip refused 171 of 173: float32``; further causes are counted."""
        first, *more = self.causes
        share = f" ({len(first.operations)}), and {len(more)} more cause{'s' if len(more) > 1 else ''}" if more else ""
        return f"{self.device} refused {self.refused:,} of {self.total:,}: {first.words}{share}"


def refusals_of(explanation: Explanation) -> tuple[DeviceRefusals, ...]:
    """Sum the refusals of a plan by device: who refuses most comes first, and who refuses nothing is left out."""
    found: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, story in enumerate(explanation.operations):
        for device, reason in story.refusals.items():
            found[device][cause_of(reason, story.operation)].append(number)
    sums = (_summed(device, causes, explanation) for device, causes in found.items())
    return tuple(sorted(sums, key=lambda each: -each.refused))


def _summed(device: str, causes: dict[str, list[int]], explanation: Explanation) -> DeviceRefusals:
    operations = explanation.operations
    by_frequency: Sequence[tuple[str, list[int]]] = sorted(causes.items(), key=lambda item: -len(item[1]))
    reasons = (
        RefusalCause(words, tuple(numbers), operations[numbers[0]].refusals[device]) for words, numbers in by_frequency
    )
    return DeviceRefusals(device, sum(map(len, causes.values())), len(operations), tuple(reasons))


def cause_of(reason: str, operation: str) -> str:
    """Return the cause of a refusal in a few words. ``operation`` is the type of the operation that is refused."""
    coded = _CODED.match(reason)
    if coded is None:
        words = reason.partition(":")[0].strip() or "no reason"
        return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
    code, got = coded[1], coded[2]
    if code in ("OP", "NO_IMPL"):
        return f"no {operation}"
    if code == "DTYPE":
        kind = _TENSOR.search(got)
        return kind[1].lower() if kind else "the element type"
    return _CAUSES.get(code, code.lower())
