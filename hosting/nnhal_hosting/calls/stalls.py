"""Ending calls whose message does not come."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from nnhal_hosting.calls.lanes import WaitingCall

_LOOK_SECONDS = 0.1


@dataclass(slots=True, eq=False)
class _Reception:
    context: grpc.ServicerContext
    call: WaitingCall
    began: float


class StallWatch:
    """Cancels calls that are still without their message after a while, and earlier if others wait in a lane of many.

    A thread looks while calls receive, and sleeps otherwise. Safe to use from several threads.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._receptions: set[_Reception] = set()
        self._some = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, context: grpc.ServicerContext, call: WaitingCall) -> Iterator[None]:
        """Have a call be cancelled if this context lasts too long."""
        reception = _Reception(context, call, time.monotonic())
        with self._lock:
            self._receptions.add(reception)
            self._some.set()
            if self._thread is None:
                self._start()
        try:
            yield
        finally:
            with self._lock:
                self._receptions.discard(reception)

    def close(self) -> None:
        """Watch no longer."""
        self._closed.set()
        self._some.set()

    def _start(self) -> None:
        thread = threading.Thread(target=self._watch, name="rpc-stalls", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process may have no more; the next call tries again
            return
        self._thread = thread

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            now = time.monotonic()
            with self._lock:
                if not self._receptions:
                    self._some.clear()
                late = [each for each in self._receptions if now - each.began > self._patience(each.call)]
            for reception in late:
                reception.context.cancel()  # type: ignore[no-untyped-call]
            self._some.wait()

    def _patience(self, call: WaitingCall) -> float:
        """In the lane of clients that cannot be told apart, a call without its message must not keep others out."""
        lane = call.lane
        if lane is None:
            return self._seconds
        if lane.newest_first and lane.waiting:
            return _LOOK_SECONDS
        return self._seconds if lane.patience is None else min(lane.patience, self._seconds)
