"""Names of Python's threads in /proc, where ``top -H``, ``perf`` and ``benchmarks.serve --breakdown`` show them."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

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
