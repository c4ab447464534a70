"""Threads that serve calls, divided fairly between clients.

A *lane* holds the calls of one client. It always has a few threads of its own, and takes others only while some are
free, so that calls which never end keep nobody waiting but their own client.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from nnhal.threads import LastingThread

_IDLE_SECONDS = 10.0
"""The time that a thread waits for more work before it ends."""


@dataclass(slots=True, eq=False)
class WaitingCall:
    """A call that is to be served."""

    work: Callable[[], object]
    """Serves it, beginning with receiving its message, and does not raise."""
    refusal: str = ""
    """Why it is only to be refused; empty if it is not."""
    lane: Lane | None = None
    """Where it waits, or is served."""
    is_receiving: bool = True
    """True if its message has not come yet."""


@dataclass(slots=True, eq=False)
class Lane:
    """The calls of one client: those that wait, and how many are served."""

    own: int
    """Threads that it may always have."""
    receivers: int = 1
    """Calls that may receive their message at a time."""
    may_share: bool = True
    """True if it may have other threads too."""
    newest_first: bool = False
    """True if the newest of the waiting calls is served first."""
    patience: float | None = None
    """Seconds that a call's message may take, if it is less than elsewhere."""
    waiting: deque[WaitingCall] = field(default_factory=deque)
    running: int = 0
    receiving: int = 0

    @property
    def open(self) -> int:
        """Calls that wait or are served."""
        return len(self.waiting) + self.running


class CallThreads:
    """Threads that serve the calls of lanes. Safe to use from several threads."""

    def __init__(self, shared: int) -> None:
        """``shared`` is how many calls are served at a time beyond those that lanes may always have."""
        self._shared = shared
        self._shared_used = 0
        self._lock = threading.Lock()
        self._ready: deque[Lane] = deque()
        """Lanes with calls that wait, in the order of their turns."""
        self._threads: set[LastingThread] = set()
        self._idle: list[threading.Event] = []
        """For each thread that waits for work, what wakes it."""
        self._numbers = itertools.count()
        self._closed = False
        with self._lock:
            self._start_thread()  # if no other can be started later, this one serves all calls

    def submit(self, lane: Lane, call: WaitingCall) -> None:
        with self._lock:
            self._add(lane, call)

    def refuse_oldest(self, lane: Lane, refusals: Lane, reason: str) -> None:
        """Have another lane refuse the call of a lane that has waited longest, if one waits."""
        with self._lock:
            if lane.waiting:
                oldest = lane.waiting.popleft()
                oldest.refusal = reason
                if not lane.waiting:
                    self._ready.remove(lane)
                self._add(refusals, oldest)

    def received(self, call: WaitingCall) -> None:
        """Say that a call has its message, or ends without: the next one of its lane may receive its own."""
        with self._lock:
            if call.is_receiving and call.lane is not None:
                call.is_receiving = False
                call.lane.receiving -= 1
                self._wake()

    def close(self) -> None:
        """Serve what waits, and wait until all threads have ended."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
            while self._idle:
                self._idle.pop().set()
        for thread in threads:
            thread.join()

    def _add(self, lane: Lane, call: WaitingCall) -> None:
        if not lane.waiting:
            self._ready.append(lane)
        call.lane = lane
        lane.waiting.append(call)
        self._wake()

    def _wake(self) -> None:
        """Have a thread look for work, if any can begin: one that is idle, or a new one."""
        if not any(map(self._may_begin, self._ready)):
            return
        if self._idle:
            self._idle.pop().set()
        else:
            self._start_thread()

    def _start_thread(self) -> None:
        thread = LastingThread(self._serve, f"rpc_{next(self._numbers)}")
        self._threads.add(thread)
        if not thread.started():  # the process may have no more: those that there are go on
            self._threads.discard(thread)

    def _serve(self) -> None:
        while True:
            with self._lock:
                taken = self._take()
            if taken is None:
                if not self._waited():
                    return
                continue
            lane, call, is_shared = taken
            del taken
            try:
                call.work()
            finally:
                del call
                with self._lock:
                    lane.running -= 1
                    self._shared_used -= is_shared

    def _take(self) -> tuple[Lane, WaitingCall, bool] | None:
        for _ in range(len(self._ready)):
            lane = self._ready.popleft()
            if not self._may_begin(lane):
                self._ready.append(lane)
                continue
            call = lane.waiting.pop() if lane.newest_first else lane.waiting.popleft()
            if lane.waiting:
                self._ready.append(lane)
            is_shared = lane.running >= lane.own
            lane.running += 1
            lane.receiving += 1
            self._shared_used += is_shared
            self._wake()
            return lane, call, is_shared
        return None

    def _waited(self) -> bool:
        """Wait until there may be work; False if the thread is to end instead."""
        with self._lock:
            if any(map(self._may_begin, self._ready)):
                return True
            if self._closed:  # what may not begin yet is served by those that are busy
                self._threads = {thread for thread in self._threads if thread.ident != threading.get_ident()}
                return False
            woken = threading.Event()
            self._idle.append(woken)
            is_last = len(self._threads) == 1
        if woken.wait(None if is_last else _IDLE_SECONDS):
            return True
        with self._lock:
            if woken not in self._idle:
                return True
            self._idle.remove(woken)
            if len(self._threads) == 1:
                return True
            self._threads = {thread for thread in self._threads if thread.ident != threading.get_ident()}
            return False

    def _may_begin(self, lane: Lane) -> bool:
        has_thread = lane.running < lane.own or (lane.may_share and self._shared_used < self._shared)
        return has_thread and lane.receiving < lane.receivers
