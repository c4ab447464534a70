"""Ending calls whose message does not come, or takes more memory than there is for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from nnhal.threads import LastingThread
from nnhal_hosting.calls.lanes import WaitingCall
from nnhal_hosting.own_memory import OwnBytes, return_freed_memory

_LOOK_SECONDS = 0.02
_HASTE_SECONDS = 0.1
"""The time that a message may take if others wait in a lane of many."""
_MUCH_BYTES = 64 << 20
_RETURN_SECONDS = 1.0
"""The time that after messages have taken much memory what they have freed is returned to the system."""


@dataclass(slots=True, eq=False)
class _IncomingMessage:
    context: grpc.ServicerContext
    call: WaitingCall
    began: float


class StallWatch:
    """Cancels calls that are still without their message after a while, and earlier if others wait in a lane of many.

    Nobody knows how many bytes of a message gRPC holds before it is complete. So the memory of the process is looked at
    too while messages take their time: if it has grown by more than the limit, all of them but the oldest are
    cancelled. A thread looks while calls receive, and sleeps otherwise. Safe to use from several threads.
    """

    def __init__(self, seconds: float, limit_bytes: int, used: Callable[[], int] | None = None) -> None:
        """``used`` says how many bytes the process has."""
        self._seconds = seconds
        self._limit_bytes = limit_bytes
        self._used = used or OwnBytes()
        self._used_before = 0
        """What the process had when no message took its time."""
        self._return_at: float | None = None
        """When what large messages have freed is returned to the system."""
        self._lock = threading.Lock()
        self._incoming: dict[_IncomingMessage, None] = {}
        """In the order in which they began."""
        self._some = threading.Event()
        self._closed = threading.Event()
        self._thread: LastingThread | None = None

    @contextmanager
    def watching(self, context: grpc.ServicerContext, call: WaitingCall) -> Iterator[None]:
        """Have a call be cancelled if this context lasts too long."""
        message = _IncomingMessage(context, call, time.monotonic())
        with self._lock:
            self._incoming[message] = None
            self._some.set()
            if self._thread is None:  # the process may have no more; the next call tries again
                self._thread = LastingThread(self._watch, "rpc-stalls").started()
        try:
            yield
        finally:
            with self._lock:
                self._incoming.pop(message)

    def close(self) -> None:
        self._closed.set()
        self._some.set()

    def _watch(self) -> None:
        is_idle, seen = True, 0.0
        while True:
            left = None if self._return_at is None else max(0.0, self._return_at - time.monotonic())
            if not self._some.wait(left):
                self._return_memory()
                continue
            if is_idle:
                self._used_before, seen = self._used(), time.monotonic()
            if self._closed.wait(_LOOK_SECONDS):
                return
            now = time.monotonic()
            is_idle = self._look(now, seen)
            seen = now

    def _look(self, now: float, seen: float) -> bool:
        """End what is to end, and return whether no call receives. ``seen`` is when this was last done."""
        with self._lock:
            is_idle = not self._incoming
            if is_idle:
                self._some.clear()
            late = [each for each in self._incoming if now - each.began > self._patience(each.call)]
            slow = [each for each in self._incoming if each.began <= seen and each not in late]
        used = self._used()
        grown = used - self._used_before
        if grown > min(self._limit_bytes // 2, _MUCH_BYTES):
            self._return_at = now + _RETURN_SECONDS
        elif self._return_at is not None and now > self._return_at and not slow:
            self._return_memory()
        if not slow:
            self._used_before = used
        for message in late + (slow[1:] if grown > self._limit_bytes else []):
            message.context.cancel()  # type: ignore[no-untyped-call]
        return is_idle

    def _return_memory(self) -> None:
        self._return_at = None
        return_freed_memory()

    def _patience(self, call: WaitingCall) -> float:
        """In the lane of clients that cannot be distinguished, a call without its message must not keep others out."""
        lane = call.lane
        if lane is None:
            return self._seconds
        if lane.newest_first and lane.waiting:
            return _HASTE_SECONDS
        return self._seconds if lane.patience is None else min(lane.patience, self._seconds)
