"""Start of threads: named in /proc, where ``top -H`` and ``perf`` show them, and never waited for without memory.

And how those that serve get a processor among others that compute.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

_LEAST_BYTES = 2 << 20
"""What Python may take for a thread before its first line, generously."""
_REFUSAL = "can't start new thread"  # as CPython says
_LOOKS = 20
_LOOK_SECONDS = 0.1
_SLICE_NS = 100_000
"""The shortest slice that Linux gives."""
_ATTRIBUTES = struct.Struct("IIQiIQQQ")  # sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
_POLICY, _RUNTIME = 1, 5
_SET_AND_GET = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of sched_setattr and sched_getattr, for which Python and older C libraries have no function."""


class _Beginning(threading.Event):
    """Set by a thread when it begins. Whoever starts the thread waits for it without a limit."""

    def __init__(self) -> None:
        super().__init__()
        self._deciding = threading.Lock()
        self._given_up = False

    def set(self) -> None:
        with self._deciding:
            if self._given_up:
                raise SystemExit
            super().set()

    def wait(self, timeout: float | None = None) -> bool:
        for _ in range(_LOOKS):  # several short ones, since the process may be stopped meanwhile
            if super().wait(_LOOK_SECONDS):
                return True
        with self._deciding:
            self._given_up = not self.is_set()
        if self._given_up:
            raise RuntimeError(_REFUSAL)
        return True


def refuse_threads_without_memory() -> None:
    """From now on ``Thread.start`` raises RuntimeError, as documented, if the thread ends before it has begun.

    CPython's waits for ever for a thread that had no memory for its first frame, with all locks that its caller holds:
    one client that had taken a device's memory so stopped the runs of all others.
    """
    start = threading.Thread.start

    def start_or_raise(thread: threading.Thread) -> None:
        try:
            mmap.mmap(-1, _LEAST_BYTES).close()
        except OSError as error:
            raise RuntimeError(_REFUSAL) from error
        thread._started = _Beginning()  # type: ignore[attr-defined] # what start() waits for, in all versions
        start(thread)

    threading.Thread.start = start_or_raise  # type: ignore[assignment, method-assign]


_OWN = Path("/proc/thread-self/comm")
_NATIVE_SINCE = (3, 14)


def show_thread_names() -> None:
    """Give every thread that starts from now on the name of its ``threading.Thread``, cut to 15 bytes by the kernel.

    CPython does so itself from 3.14 on. Earlier versions have no hook for a thread's start but the one for profilers.
    """
    if sys.version_info < _NATIVE_SINCE:
        threading.setprofile(_show_name)


def _show_name(_frame: FrameType, _event: str, _argument: Any) -> None:
    """Name the calling thread at the first event of its profile, which ends with it."""
    sys.setprofile(None)
    with suppress(OSError):
        _OWN.write_text(threading.current_thread().name)


def take_short_turns() -> None:
    """Have this thread run in slices of a tenth of a millisecond; its share of the processors stays the same.

    If others compute on its processor, a thread that wakes has to wait for the end of their slice, of some
    milliseconds, unless its own is shorter (since Linux 6.12: ``sched_runtime`` in sched_setattr(2)). Nothing happens
    if the kernel does not know that, or does not permit it.
    """
    numbers = _SET_AND_GET.get(platform.machine())
    if numbers is None:
        return
    syscall = ctypes.CDLL(None).syscall
    raw = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if syscall(numbers[1], 0, raw, len(raw), 0):
        return
    found = list(_ATTRIBUTES.unpack(raw))
    if found[_POLICY] in (os.SCHED_OTHER, os.SCHED_BATCH):
        found[_RUNTIME] = _SLICE_NS
        syscall(numbers[0], 0, _ATTRIBUTES.pack(*found), 0)
