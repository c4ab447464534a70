"""Sync fences: descriptors that say once when something has ended, to any process that holds one.

A fence is the read end of a socket pair. It has signalled when its status byte can be peeked, and is in error at the
end of the stream without one: whoever dies fails every fence that it owed, with no further protocol.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import time
from collections.abc import Sequence
from enum import Enum

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.types import NO_DEADLINE

_STATUS = b"\x01"
_NANOSECONDS_PER_MILLISECOND = 1_000_000
_LONGEST_POLL_MS = (1 << 31) - 1


class FenceState(Enum):
    """What is known of a fence."""

    PENDING = "pending"
    SIGNALLED = "signalled"
    ERROR = "error"


class FenceError(NnhalError):
    """A fence went into error: what it stands for failed, was given up, or died with its process."""


class Fence:
    """The end of a fence that waits. May be waited for any number of times, in any number of processes."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: Descriptor) -> None:
        """Raises ValueError where the descriptor is closed or is no socket."""
        if not stat.S_ISSOCK(os.fstat(descriptor.fileno()).st_mode):
            raise ValueError("a fence that is no socket")
        self.descriptor = descriptor

    def fileno(self) -> int:
        """The number of its descriptor."""
        return self.descriptor.fileno()

    @property
    def state(self) -> FenceState:
        """What it says at this moment."""
        try:
            seen = self._peek()
        except BlockingIOError:
            return FenceState.PENDING
        except OSError:  # a socket that nobody can ever write to
            return FenceState.ERROR
        return FenceState.SIGNALLED if seen else FenceState.ERROR

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has signalled, ``timeout`` seconds at most. Raises FenceError or TimeoutError."""
        wait_for_all([self], NO_DEADLINE if timeout is None else _now_ns() + int(timeout * 1e9))

    def give_up(self) -> None:
        """Put it into error for all who wait for it, in any process, unless it has signalled.

        What it stands for goes on: nothing begins that waits for it. Harmless when repeated.
        """
        view = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.descriptor.fileno())
        try:
            with contextlib.suppress(OSError):  # it is in error already
                view.shutdown(socket.SHUT_RD)
        finally:
            view.detach()

    def wait_for_end(self) -> None:
        """Wait until it has signalled, or whoever owes the signal has failed; also where it has been given up."""
        with contextlib.suppress(FenceError):
            self.wait()
        with contextlib.suppress(OSError):
            if not self._peek():
                poll = select.poll()
                poll.register(self.fileno(), 0)  # that the other end is closed is reported in any case
                poll.poll()

    def _peek(self) -> bytes:
        """The status, empty at the end of the stream. Raises OSError where there is neither."""
        view = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.descriptor.fileno())
        try:
            return view.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        finally:
            view.detach()


class Signal:
    """The end of a fence that signals. Closing it, or dying, without a signal is the error."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor

    def send(self) -> None:
        """Signal. What was done before is seen by whoever waits."""
        with contextlib.suppress(OSError, ValueError):  # nobody holds the fence any more, or it has failed already
            os.write(self._descriptor.fileno(), _STATUS)
        self._descriptor.close()

    def fail(self) -> None:
        """Put the fence into error; nothing after a signal."""
        self._descriptor.close()


def create_fence() -> tuple[Signal, Fence]:
    """A pending fence, and what signals it. Raises OSError where there are no descriptors."""
    signal, fence = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Signal(Descriptor(signal.detach())), Fence(Descriptor(fence.detach()))


def wait_for_all(fences: Sequence[Fence], deadline_ns: int = NO_DEADLINE, cancelled: int | None = None) -> None:
    """Wait until all of them have signalled.

    ``deadline_ns`` is an instant of the contract's clock. ``cancelled`` is a descriptor that becomes readable when
    waiting is to end. Raises FenceError where a fence is in error or waiting was given up, TimeoutError at the
    deadline.
    """
    pending = {}
    for number, fence in enumerate(fences):
        if _require_no_error(fence, number) is FenceState.PENDING:
            pending[fence.fileno()] = number
    if not pending:
        return
    poll = select.poll()
    for fd in pending:
        poll.register(fd, select.POLLIN)
    if cancelled is not None:
        poll.register(cancelled, select.POLLIN)
    while pending:
        events = poll.poll(_milliseconds_until(deadline_ns))
        if not events and deadline_ns != NO_DEADLINE and _now_ns() >= deadline_ns:
            raise TimeoutError(f"{len(pending)} of {len(fences)} fences had not signalled in time")
        for fd, _ in events:
            if fd == cancelled:
                raise FenceError("waiting was given up")
            if _require_no_error(fences[pending[fd]], pending[fd]) is FenceState.PENDING:
                raise FenceError(f"fence {pending[fd]} does not behave like one")
            poll.unregister(fd)
            del pending[fd]


def _require_no_error(fence: Fence, number: int) -> FenceState:
    state = fence.state
    if state is FenceState.ERROR:
        raise FenceError(f"fence {number} is in error")
    return state


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _milliseconds_until(deadline_ns: int) -> int | None:
    if deadline_ns == NO_DEADLINE:
        return None
    left = max(0, deadline_ns - _now_ns())
    return min(-(-left // _NANOSECONDS_PER_MILLISECOND), _LONGEST_POLL_MS)
