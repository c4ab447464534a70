"""Sync fences: descriptors that signal the end of something, once, to every process that holds one.

A fence is the read end of a pair of unix sockets, of type SOCK_STREAM or SOCK_SEQPACKET. It has signalled when its
status byte can be peeked, and is in error at the end of the stream without one: a process that dies fails every fence
that it owed, with no further protocol.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
from collections.abc import Sequence
from enum import Enum

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.types import NO_DEADLINE

FENCE_TYPES = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
"""The types of sockets on which the end of the other side is seen."""
_STATUS = b"\x01"
_NANOSECONDS_PER_MILLISECOND = 1_000_000
_LONGEST_POLL_MS = (1 << 31) - 1


class FenceState(Enum):
    PENDING = "pending"
    SIGNALLED = "signalled"
    ERROR = "error"


class FenceError(NnhalError):
    """A fence is in error: what it stands for failed, was cancelled, or died with its process."""


class WaitInterruptedError(FenceError):
    """Waiting was ended from outside; of the fences nothing is known."""


class Fence:
    """The waiting end of a fence. Any number of processes may wait for it, any number of times."""

    __slots__ = ("descriptor", "name")

    def __init__(self, descriptor: Descriptor) -> None:
        """Take over ``descriptor``. Raises ValueError if it is closed or not a socket."""
        self.name = "a fence"
        """How messages call it."""
        if not stat.S_ISSOCK(os.fstat(descriptor.fileno()).st_mode):
            raise ValueError("a fence that is not a socket")
        self.descriptor = descriptor

    @classmethod
    def received(cls, descriptor: Descriptor) -> Fence:
        """Take over a descriptor that another process has handed over as a fence.

        Raises ValueError, which says what it is instead, if it is no end of a socket pair, or of a pair on which the
        end of the other side is not seen.
        """
        fence = cls(descriptor)
        fault = fault_of_pair(descriptor)
        if fault:
            raise ValueError(f"a fence that is {fault}")
        return fence

    def fileno(self) -> int:
        return self.descriptor.fileno()

    @property
    def state(self) -> FenceState:
        try:
            seen = self._peek()
        except BlockingIOError:
            return FenceState.PENDING
        except OSError:  # a socket that was never connected
            return FenceState.ERROR
        return FenceState.SIGNALLED if seen else FenceState.ERROR

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has signalled, for at most ``timeout`` seconds. Raises FenceError or TimeoutError."""
        wait_for_all([self], NO_DEADLINE if timeout is None else now_ns() + int(timeout * 1e9))

    def cancel(self) -> None:
        """Put it into error for every process that waits for it, unless it has signalled.

        Nothing that waits for it begins, and what it stands for ends early if it can. Further calls have no effect.
        """
        view = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.descriptor.fileno())
        try:
            with contextlib.suppress(OSError):  # the fence is in error already
                view.shutdown(socket.SHUT_RD)
        finally:
            view.detach()

    def wait_for_end(self) -> None:
        """Wait until the other end has signalled or failed, even if the fence has been cancelled."""
        with contextlib.suppress(FenceError):
            self.wait()
        with contextlib.suppress(OSError):
            if not self._peek():
                poll = select.poll()
                poll.register(self.fileno(), 0)  # poll reports the closing of the other end in any case
                poll.poll()

    def _peek(self) -> bytes:
        """Return the status byte, or nothing at the end of the stream. Raises OSError if there is neither."""
        view = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.descriptor.fileno())
        try:
            return view.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        finally:
            view.detach()


def fault_of_pair(descriptor: Descriptor) -> str:
    """Say what a socket is if it is no end of a pair that can carry a fence; nothing if it is one.

    An end of a pair has no name, and neither has the other side; a connection to a listening socket always has one.
    """
    try:
        view = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor.fileno())
    except OSError:
        return "the path of a socket"
    try:
        kind = view.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
        if kind not in FENCE_TYPES:
            return f"a socket of type {_name_of(kind)}, on which the end of the other side is not seen"
        # Sockets of other families have addresses, which are not empty either.
        if view.getsockname() or view.getpeername():
            return "a socket with an address, or connected to one, as links are"
    except OSError:
        return "a socket that is not connected"
    finally:
        view.detach()
    return ""


class Signal:
    """The signalling end of a fence. If it is closed without a signal, or its process dies, the fence is in error."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor

    @property
    def is_cancelled(self) -> bool:
        """Return whether somebody has cancelled the fence. Closing all of its copies does not cancel it."""
        try:
            view = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self._descriptor.fileno())
        except (OSError, ValueError):  # it has signalled, or failed
            return False
        try:
            view.send(b"", socket.MSG_DONTWAIT)  # of no bytes: it only asks whether there is a way to the other end
            return False
        except OSError:
            poll = select.poll()
            poll.register(view, 0)
            return not poll.poll(0)  # which would report that the other end is closed
        finally:
            view.detach()

    def send(self) -> None:
        """Signal. A process that has waited sees everything that was written before."""
        with contextlib.suppress(OSError, ValueError):  # all copies of the fence are closed, or it has failed already
            os.write(self._descriptor.fileno(), _STATUS)
        self._descriptor.close()

    def fail(self) -> None:
        """Put the fence into error. Has no effect after a signal."""
        self._descriptor.close()


def create_fence() -> tuple[Signal, Fence]:
    """Create a pending fence and the end that signals it. Raises OSError if no descriptors are left."""
    signal, fence = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Signal(Descriptor(signal.detach())), Fence(Descriptor(fence.detach()))


def wait_for_all(fences: Sequence[Fence], deadline_ns: int = NO_DEADLINE, cancelled: int | None = None) -> None:
    """Wait until all fences have signalled.

    ``deadline_ns`` is an instant of the contract's clock. ``cancelled`` is a descriptor that becomes readable when
    waiting is to end. Raises FenceError if a fence is in error, WaitInterruptedError if waiting was cancelled,
    TimeoutError at the deadline.
    """
    pending = {}
    for number, fence in enumerate(fences):
        if _require_no_error(fence) is FenceState.PENDING:
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
        if not events and deadline_ns != NO_DEADLINE and now_ns() >= deadline_ns:
            raise TimeoutError(f"{len(pending)} of {len(fences)} fences had not signalled in time")
        for fd, _ in events:
            if fd == cancelled:
                raise WaitInterruptedError("waiting was cancelled")
            if _require_no_error(fences[pending[fd]]) is FenceState.PENDING:
                raise FenceError(f"{fences[pending[fd]].name} does not behave like one")
            poll.unregister(fd)
            del pending[fd]


def name_fences(fences: Sequence[Fence], numbers: Sequence[int]) -> None:
    """Have messages name fences by the ids of their descriptors, as their client does."""
    for fence, number in zip(fences, numbers, strict=True):
        fence.name = f"the fence of descriptor {number}"


def _require_no_error(fence: Fence) -> FenceState:
    state = fence.state
    if state is FenceState.ERROR:
        raise FenceError(f"{fence.name} is in error")
    return state


def _name_of(kind: int) -> str:
    names = {member.value: member.name for member in socket.SocketKind}
    return names.get(kind, str(kind))


def _milliseconds_until(deadline_ns: int) -> int | None:
    if deadline_ns == NO_DEADLINE:
        return None
    left = max(0, deadline_ns - now_ns())
    return min(-(-left // _NANOSECONDS_PER_MILLISECOND), _LONGEST_POLL_MS)
