"""Waiting for other processes."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_PAUSE = threading.Event()
SECONDS = 120.0
"""The time to wait for what must happen: as long as it may take on a busy machine."""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Poll until a condition holds; fail after ``seconds``."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        _PAUSE.wait(0.01)
    raise AssertionError(f"{what}: not within {seconds} s")


def settled(look: Callable[[], T], seconds: float = SECONDS) -> T:
    """Return a value once it has been the same for a quarter of a second; fail after ``seconds``."""
    seen, same = look(), 0
    for _ in range(int(seconds / 0.01)):
        _PAUSE.wait(0.01)
        previous, seen = seen, look()
        same = same + 1 if seen == previous else 0
        if same == 25:
            return seen
    raise AssertionError(f"{seen}: still changing after {seconds} s")


def wait_for_death(pid: int, seconds: float = 300.0) -> None:
    """Wait until a process has ended; fail after ``seconds``. On a busy machine one that hangs is found late."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()  # select() takes descriptors below 1024 only
        poll.register(handle, select.POLLIN)
        if not poll.poll(seconds * 1000):
            raise AssertionError(f"process {pid} still runs after {seconds} s")
    finally:
        os.close(handle)


def stop(pid: int) -> None:
    """Send a process SIGSTOP, and wait until all of its threads have stopped, which may take as long as one is busy."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    wait_until(lambda: all(_state(thread) == "T" for thread in threads.iterdir()), f"process {pid} has stopped")


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]
