"""The requests of ptrace(2) that counting system calls takes. Only the thread that seized another may make them."""

from __future__ import annotations

import ctypes
import os
import signal

SYSTEM_CALL_STOP = signal.SIGTRAP | 0x80
"""The signal with which a thread stops at a system call, if it was seized here."""
EXIT_EVENT = 6
"""The event of a thread that is about to end."""
_SYSCALL, _DETACH = 24, 17
_SEIZE, _INTERRUPT, _SYSCALL_INFO = 0x4206, 0x4207, 0x420E
_MARK_SYSTEM_CALLS, _TRACE_CLONES, _TRACE_EXITS = 0x01, 0x08, 0x40
_WALL, _OWN_THREAD = 0x40000000, 0x20000000
_INFO_BYTES = 88
_ENTRY = 1
_NUMBER = slice(24, 32)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def seize(tid: int) -> None:
    """Trace a thread and those that it will start, without stopping it. It stops before it ends. Raises OSError."""
    _ptrace(_SEIZE, tid, 0, _MARK_SYSTEM_CALLS | _TRACE_CLONES | _TRACE_EXITS)


def interrupt(tid: int) -> None:
    """Stop a thread soon. Raises OSError."""
    _ptrace(_INTERRUPT, tid)


def resume(tid: int, signal_number: int = 0) -> None:
    """Let a stopped thread run to the next beginning or end of a system call. Raises OSError."""
    _ptrace(_SYSCALL, tid, 0, signal_number)


def detach(tid: int, signal_number: int = 0) -> None:
    """Let a stopped thread run on untraced. Raises OSError."""
    _ptrace(_DETACH, tid, 0, signal_number)


def entered_call(tid: int) -> int | None:
    """The number of the system call that a stopped thread begins; None if it ends one. Raises OSError."""
    info = ctypes.create_string_buffer(_INFO_BYTES)
    _ptrace(_SYSCALL_INFO, tid, _INFO_BYTES, ctypes.addressof(info))
    return int.from_bytes(info.raw[_NUMBER], "little") if info.raw[0] == _ENTRY else None


def next_stop(wait: bool = True) -> tuple[int, int] | None:
    """Wait for a thread that the caller traces to stop or end: its id and status; None if none is traced any more.

    Without ``wait``, the id is 0 if none has stopped or ended.
    """
    try:
        return os.waitpid(-1, _WALL | _OWN_THREAD | (0 if wait else os.WNOHANG))
    except ChildProcessError:
        return None


def _ptrace(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
