"""Processes with those that they have started, and their processor time and context switches, from /proc."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

MAIN = "main"
_NUMBER = re.compile(r"[-_ ]?\d+$")
_UNNAMED = re.compile(r"Thread-\d+ \(([^)]+)")
"""How Python calls a thread without a name of its own: by its function."""
_CPUCLOCK_SCHED = 2


@dataclass(frozen=True, slots=True)
class ThreadUsage:
    """A thread's counts since it started."""

    role: str
    """``main``, or the thread's name without the number that tells it from others of its kind."""
    processor_ns: int
    """Time on a processor."""
    wakes: int
    """Voluntary context switches: how often it blocked, to be woken later."""
    preemptions: int
    """Involuntary context switches: how often it had to leave the processor to another thread."""

    def since(self, before: ThreadUsage | None) -> ThreadUsage:
        """The difference to earlier counts; None stands for a thread that did not exist."""
        if before is None:
            return self
        return ThreadUsage(
            self.role,
            self.processor_ns - before.processor_ns,
            self.wakes - before.wakes,
            self.preemptions - before.preemptions,
        )


def family(pid: int) -> list[int]:
    """A process and its descendants, as of now; only the process itself if it has none, or has ended."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return [pid]


def threads_of(pid: int) -> dict[int, ThreadUsage]:
    """The living threads of a process by their ids; none if it has ended."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found[int(task.name)] = _usage(pid, task)
        except OSError:  # it has ended in the meantime
            continue
    return found


def process_ns(pid: int) -> int:
    """A process's time on processors, with that of threads that have ended. Raises OSError if it has ended.

    The number of the clock is made as in clock_getcpuclockid(3).
    """
    return time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED)


def role_of(task: Path, pid: int) -> str:
    """The role of a thread, given as its folder in /proc. Raises OSError if it has ended."""
    if int(task.name) == pid:
        return MAIN
    name = (task / "comm").read_text().rstrip("\n")
    unnamed = _UNNAMED.match(name)
    return unnamed[1] if unnamed else _NUMBER.sub("", name) or name


def _usage(pid: int, task: Path) -> ThreadUsage:
    status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line)
    return ThreadUsage(
        role_of(task, pid),
        int((task / "schedstat").read_text().split()[0]),
        int(status["voluntary_ctxt_switches"]),
        int(status["nonvoluntary_ctxt_switches"]),
    )
