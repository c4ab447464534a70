"""Waiting for what another process does."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

_PAUSE = threading.Event()


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Ask again and again until something holds; fail after ``seconds``."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        _PAUSE.wait(0.01)
    raise AssertionError(f"{what}: not within {seconds} s")


def wait_for_death(pid: int, seconds: float = 30.0) -> None:
    """Wait until a process is gone; fail after ``seconds``."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([handle], [], [], seconds)[0]:
            raise AssertionError(f"process {pid} still runs after {seconds} s")
    finally:
        os.close(handle)
