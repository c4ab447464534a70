"""State of a context and its runs, from outside and in between."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import NamedTuple

from nnhal.types import Memory


class ContextMemories(NamedTuple):
    pools: Sequence[Memory]
    """The pools of the client."""
    arena: Sequence[Memory]
    """The pools of the values between steps."""


class RunInFlight(NamedTuple):
    """A run that has not ended."""

    since_ns: int
    """When it was called, by CLOCK_MONOTONIC."""
    deadline_ns: int
    """An instant of CLOCK_BOOTTIME; NO_DEADLINE if it has none."""
    is_launched: bool
    """True if it was launched: it may wait for fences."""


class Begun(NamedTuple):
    """State of a run when it begins."""

    instant_ns: int
    """An instant of CLOCK_BOOTTIME; -1 unless the context measures."""
    started_ns: int
    """An instant of the performance counter."""
    socket_bytes: int
    """Bytes that had gone to devices and back before."""


def release_frames(error: BaseException) -> None:
    """Clear the frames of an error and of its causes, so that they hold no memory of the run.

    An error that a function has received and raises again is held by that function's frame, which the error holds: the
    cycle would keep the memory of the run until the next garbage collection.
    """
    known: set[int] = set()
    follow: BaseException | None = error
    while follow is not None and id(follow) not in known:
        known.add(id(follow))
        traceback.clear_frames(follow.__traceback__)
        follow = follow.__cause__ or follow.__context__
