"""The time that processes had, which is what has passed but for what they waited for a processor.

A watch that gives a process some seconds must not take a busy machine for a process that hangs. One whose threads wait
for a processor is slow. One whose threads sleep although something is asked of it hangs, and so does one that computes
all the time and does not answer. The kernel counts for each thread how long it has run, and how long it was ready to
run and did not (/proc/PID/task/TID/schedstat; Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple

from nnhal.exhaustion import lack_of
from nnhal_hosting.spare_descriptor import FOR_LOOKS

_LEAST_SECONDS = 0.05
"""How often the kernel is asked at most: that costs some 10 microseconds a thread."""


class ThreadTime(NamedTuple):
    """Facts of the kernel about a thread."""

    ran: float
    """Seconds."""
    waited: float
    """Seconds for which it was ready and did not run, but for a wait that has not ended."""
    is_ready: bool
    """True if it runs or would like to, at this moment."""


_NEW = ThreadTime(0.0, 0.0, False)


class ProcessorTime:
    """Counts the seconds that processes had. Not safe to use from several threads."""

    def __init__(self, *processes: int) -> None:
        """Each of the processes may have to wait for a processor: who is asked, and this one, which asks.

        One that cannot be seen, as in another PID namespace, or whose kernel does not count, is taken never to wait.
        """
        self._processes = processes
        self._at = self._read_at = time.monotonic()
        self._share = 1.0
        self._read = [_times(process) for process in processes]

    def passed(self, most: float = inf) -> float:
        """Return the seconds that the processes had since the last call, or since the beginning.

        ``most`` is how much may have passed: if it is more, the machine was asleep. Returns 0 if this process has no
        descriptor or memory left to ask the kernel: who knows nothing waits.
        """
        now = time.monotonic()
        passed, self._at = min(now - self._at, most), now
        if now - self._read_at >= _LEAST_SECONDS:
            seconds, self._read_at = now - self._read_at, now
            before, self._read = self._read, [_times(process) for process in self._processes]
            self._share = 1.0
            for earlier, later in zip(before, self._read, strict=True):
                self._share *= 0.0 if earlier is None or later is None else share_given(seconds, earlier, later)
        return passed * self._share


def share_given(seconds: float, before: Mapping[int, ThreadTime], after: Mapping[int, ThreadTime]) -> float:
    """Return which share of some seconds a process had, by the times of its threads before and after: 0 to 1.

    While no thread wants a processor the time counts in full, and else by the share that it was given of what it
    wanted, so that it does not matter how many threads a process has.
    """
    ran = waited = 0.0
    for thread, now in after.items():
        then = before.get(thread, _NEW)
        has_run, has_waited = now.ran - then.ran, now.waited - then.waited
        ran += has_run
        waited += max(has_waited, seconds - has_run) if now.is_ready else has_waited
    wanted = ran + waited
    return 1.0 - min(1.0, wanted / seconds) * waited / wanted if waited > 0 else 1.0


def _times(process: int) -> dict[int, ThreadTime] | None:
    """The times of a process's threads; none if they cannot be seen, None if this process lacks what it takes."""
    try:
        return FOR_LOOKS.used_for(partial(_read_times, process))
    except (OSError, ValueError, IndexError, MemoryError) as error:
        return None if lack_of(error) else {}


def _read_times(process: int) -> dict[int, ThreadTime]:
    found: dict[int, ThreadTime] = {}
    for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208 - a fifth of what Path takes
        try:
            folder = Path(f"/proc/{process}/task/{thread}")
            ran, waited, _ = (folder / "schedstat").read_bytes().split()
            is_ready = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"R"
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        found[int(thread)] = ThreadTime(int(ran) / 1e9, int(waited) / 1e9, is_ready)
    reader = found.get(threading.get_native_id())  # which may have slept until now
    return found if reader is None else {**found, threading.get_native_id(): reader._replace(is_ready=False)}
