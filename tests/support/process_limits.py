"""Limits on what a process may have, so that what grows without bound fails early, and by itself."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec

P = ParamSpec("P")

_KIBIBYTE = 1 << 10


@contextmanager
def memory_limit(spare: int, pid: int = 0) -> Iterator[None]:
    """Let a process, by default this one, have so many bytes of address space more than it has now."""
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    _, highest = before
    limit = _virtual_bytes(pid) + spare
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, highest))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, before)


@contextmanager
def descriptor_limit(spare: int, pid: int) -> Iterator[None]:
    """Let a process have so many descriptors more than it has now, or more if others are closed meanwhile."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    _, highest = before
    taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    free = (number for number in count() if number not in taken)  # a new descriptor has the lowest free number
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(islice(free, spare, None)), highest))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def apart(check: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a function of a module in a new process, where no thread of another test opens or closes descriptors."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        process.submit(check, *args, **kwargs).result()


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process, which has been started for that (``apart``), have no descriptor more than it has now."""
    with descriptor_limit(0, os.getpid()), ExitStack() as held:
        with suppress(OSError):
            while True:  # also that by which the limit was found
                held.callback(os.close, os.eventfd(0))
        yield


def peak_bytes(pid: int) -> int:
    """The most that a process has had in RAM so far."""
    return _status(pid, "VmHWM")


def _virtual_bytes(pid: int) -> int:
    return _status(pid, "VmSize")


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid or 'self'}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * _KIBIBYTE
