"""Progress that parts need when a later part is at some stripe, in closed form: the planner's view of a walk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nnhal_cascade.geometry.accesses import AxisAccess
from nnhal_cascade.geometry.box import Interval

Steps = NDArray[np.int64]
"""For each stripe of a plan's last part, how many elements of a tensor are done along the plan's axis."""


@lru_cache(maxsize=4096)
def needed_stop(access: AxisAccess, length: int) -> Steps:
    """For each count of output elements that are done, how many elements of the input they need."""
    stops, most = np.zeros(length + 1, np.int64), 0
    for done in range(1, length + 1):
        needed = access.needs(Interval(done - 1, done))
        most = max(most, needed.stop if needed.length else 0)
        stops[done] = most
    return stops


@lru_cache(maxsize=4096)
def needed_start(access: AxisAccess, length: int, extent: int) -> Steps:
    """For each count of output elements that are done, the first element of the input that the others need."""
    starts, first = np.full(length + 1, extent, np.int64), extent
    for done in range(length - 1, -1, -1):
        needed = access.needs(Interval(done, done + 1))
        first = min(first, needed.start) if needed.length else first
        starts[done] = first
    return starts


def rounded_up(steps: Steps, stripe: int, length: int) -> Steps:
    """Return what is done if a part runs whole stripes until at least ``steps`` elements are there."""
    found: Steps = np.minimum(-(-steps // stripe) * stripe, length)
    return found


@lru_cache(maxsize=65536)
def rolling_extent(access: AxisAccess, length: int, extent: int, stripe: int, produced: int) -> int:
    """The greatest number of elements of a tensor that are alive at once between its producer and its only reader.

    ``length`` and ``stripe`` are the reader's output and the extent of its stripes, ``extent`` and ``produced`` those
    of the tensor: all in elements along the plan's axis.
    """
    starts = np.arange(0, length, stripe)
    done = rounded_up(needed_stop(access, length)[np.minimum(starts + stripe, length)], produced, extent)
    first: Steps = needed_start(access, length, extent)[starts]
    return max(1, int((done - first).max()))


def greatest_lead(written: Steps, freed: Steps) -> int:
    """The most bytes by which what is written is ahead of what is freed, at least 0."""
    return max(0, int((written - freed).max()))


def halvings(extent: int, factors: int | None = None) -> Sequence[int]:
    """The extents of stripes that are tried: the whole, its half and so on, rounded up, to 1.

    ``factors`` is how many at most: the first ones and 1.
    """
    found = [extent]
    while found[-1] > 1:
        found.append(-(-found[-1] // 2))
    if factors is None or len(found) <= factors:
        return found
    return [*found[: factors - 1], found[-1]] if factors > 1 else found[:1]
