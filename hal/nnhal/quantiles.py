"""Quantiles of durations that were counted in ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnhal.admin import DURATION_BOUNDS_NS


def summed(counts: Iterable[Sequence[int]]) -> list[int]:
    """Add up counts range by range."""
    total = [0] * (len(DURATION_BOUNDS_NS) + 1)
    for row in counts:
        for index, count in enumerate(row):
            total[index] += count
    return total


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the duration in nanoseconds that ``share`` of the counted ones do not exceed; None if none were counted.

    Within a range, durations are taken as evenly spread over its logarithm. The last range has no upper bound: its
    lower one is returned.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, passed = share * total, 0
    for index, count in enumerate(counts):
        if count and passed + count >= wanted:
            if index >= len(DURATION_BOUNDS_NS):
                return float(DURATION_BOUNDS_NS[-1])
            high = DURATION_BOUNDS_NS[index]
            low = DURATION_BOUNDS_NS[index - 1] if index else high / 10**0.25
            return float(low * (high / low) ** ((wanted - passed) / count))
        passed += count
    return float(DURATION_BOUNDS_NS[-1])
