"""Threads that are kept for the next work.

The one that rested last is used next, since the processor still knows what it works with; and they are daemons: what
has stopped for ever, such as a call to a device that is frozen, does not keep the process from ending. Threads of
concurrent.futures are taken in any order, and waited for at the exit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[[], object]


class Workers(Executor):
    """An executor of up to ``most`` threads, made when they are needed. Safe to use from several threads."""

    def __init__(self, most: int, name: str) -> None:
        """``name`` begins the threads' names."""
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._resting: list[_Worker] = []
        self._waiting: deque[Work] = deque()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See Executor. Raises RuntimeError once it is shut down."""
        future: Future[T] = Future()
        self.start(partial(_fulfil, future, partial(fn, *args, **kwargs)))
        return future

    def start(self, work: Work) -> None:
        """Do something that raises nothing; it waits while all threads work. Raises RuntimeError as ``submit``."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the threads {self._name!r} have been shut down")
            if self._resting:
                worker = self._resting.pop()
                worker.work = work
                worker.rest.release()
                return
            if len(self._threads) >= self._most:
                self._waiting.append(work)
                return
            thread = threading.Thread(
                target=self._run, args=(_Worker(work),), name=f"{self._name}_{len(self._threads)}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See Executor. What waits is still done, or with ``cancel_futures`` dropped."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._waiting.clear()
            resting, self._resting = self._resting, []
        for worker in resting:
            worker.rest.release()
        if wait:
            for thread in self._threads:
                thread.join()

    def _run(self, worker: _Worker) -> None:
        while (work := worker.work) is not None:
            work()
            # What is at rest holds nothing of what it has done.
            work = worker.work = None
            with self._lock:
                if self._waiting:
                    worker.work = self._waiting.popleft()
                    continue
                if self._closed:
                    return
                self._resting.append(worker)
            worker.rest.acquire()


def _fulfil(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
        # The error holds this frame, which must not hold what holds the error.
        del future, work
    else:
        future.set_result(result)


class _Worker:
    """A thread's next work, none at the end; ``rest`` is held while it has none."""

    __slots__ = ("rest", "work")

    def __init__(self, work: Work) -> None:
        self.work: Work | None = work
        self.rest = threading.Lock()
        self.rest.acquire()
