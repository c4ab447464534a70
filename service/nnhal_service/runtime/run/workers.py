"""A pool of threads for runs with a deadline.

Unlike those of concurrent.futures, the thread that became idle last is used next, since its caches are warm, and the
threads are daemons: a call that never returns, such as one to a frozen device, does not keep the process from ending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import ParamSpec, TypeVar

from nnhal.threads import LastingThread

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[[], object]


class Workers(Executor):
    """An executor of up to ``most`` threads, started when they are needed. Safe to use from several threads."""

    def __init__(self, most: int, name: str) -> None:
        """``name`` is the prefix of the threads' names."""
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._resting: list[_Worker] = []
        self._waiting: deque[Work] = deque()
        self._threads: list[LastingThread] = []
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in a thread of the pool. Raises RuntimeError if the pool has been shut down."""
        future: Future[T] = Future()
        self.start(partial(_fulfil, future, partial(fn, *args, **kwargs)))
        return future

    def start(self, work: Work) -> None:
        """Run ``work``, which must not raise; it waits while all threads are busy. Raises as ``submit`` does."""
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
            thread = LastingThread(partial(self._run, _Worker(work)), f"{self._name}_{len(self._threads)}")
            thread.start()
            self._threads.append(thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut the pool down. Work that waits is still done, or dropped with ``cancel_futures``."""
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
        while True:
            work, worker.work = worker.work, None  # if it raises, it is not done again
            if work is not None:
                work()
                del work  # an idle thread holds nothing of what it has done
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
        # The error holds this frame, which must not hold the future: it holds the error.
        del future, work
    else:
        future.set_result(result)


class _Worker:
    """A thread's next work, None at the end; ``rest`` is locked while the thread is idle."""

    __slots__ = ("rest", "work")

    def __init__(self, work: Work) -> None:
        self.work: Work | None = work
        self.rest = threading.Lock()
        self.rest.acquire()
