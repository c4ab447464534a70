"""Short windows in rounds, so that other load of the machine meets all contenders alike."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

from benchmarks.generators import BenchError
from benchmarks.processes import family, process_ns

Say = Callable[[str], None]
W = TypeVar("W")
Measure = Callable[[], W]
"""Measures a window. Raises BenchError, or OSError if a server has ended."""
_STEP = 5
"""Each round begins this many contenders later, so that no contender always follows the same one."""


def measure_in_turns(
    what: str, contenders: Mapping[str, Callable[[], AbstractContextManager[Measure[W]]]], rounds: int, say: Say
) -> dict[str, list[W]]:
    """Start all contenders, and measure a window of each in every round. Returns the windows by contender.

    One that cannot be started or measured is left out, with a message. ``what`` is measured, in words for messages.
    """
    windows: dict[str, list[W]] = {}
    with ExitStack() as stack:
        started: dict[str, Measure[W]] = {}
        for name, start in contenders.items():
            try:
                started[name] = stack.enter_context(start())
                windows[name] = []
            except BenchError as error:
                say(f"{what}: {name} is left out: {error}")
        for number in range(rounds):
            names = deque(started)
            names.rotate(-number * _STEP)
            for name in names:
                try:
                    windows[name].append(started[name]())
                except (BenchError, OSError) as error:
                    say(f"{what}: {name} is left out: {error}")
                    del started[name], windows[name]
            say(f"{what}: round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}")
    return windows


class ProcessorTime:
    """The processor time of some processes, and of those that they have started, from now on."""

    def __init__(self, pids: tuple[int, ...]) -> None:
        """Raises OSError if one has ended."""
        self._pids = [member for pid in pids for member in family(pid)]
        self._before = self._now()

    def microseconds(self, requests: int) -> float | None:
        """Microseconds for each request; None if there are no processes. Raises OSError if one has ended."""
        return (self._now() - self._before) / requests / 1e3 if self._pids else None

    def _now(self) -> int:
        return sum(map(process_ns, self._pids))
