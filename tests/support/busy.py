"""Processes that compute on one processor, so that others on it are slow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SPIN = "while True: pass"
LITTLE = 17


def one_processor() -> int:
    """The number of the processor that is shared."""
    return min(os.sched_getaffinity(0))


@contextmanager
def spinning(count: int) -> Iterator[list[int]]:
    """Run so many processes that compute on the shared processor until the context ends."""
    with ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen([sys.executable, "-c", SPIN])) for _ in range(count)]
        for process in started:
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {one_processor()})
        yield [process.pid for process in started]


def slow_down(process: int) -> None:
    """Have a process share that processor, of which it gets a fiftieth of what each other gets."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {one_processor()})
        os.setpriority(os.PRIO_PROCESS, int(thread.name), LITTLE)
