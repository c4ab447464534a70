"""The event loop in which requests are served, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import uvloop

from nnhal.threads import BriefThread
from nnhal_hosting.listener_watch import ListenerWatch
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.run.workers import Workers

P = ParamSpec("P")
T = TypeVar("T")
MOST_BYTES_IN_LOOP = 1 << 18
"""The bytes that may be copied in the loop, which takes some 10 us. A thread must be woken, and wake the loop: 20 us at
the least, and three times for a request.
"""
_THREADS = 16
_MOST_WAITING = 4096
"""Runs and preparations that wait for devices at a time; each model has only so many as it has instances."""
_GRACE_SECONDS = 2.0
_TURN_SECONDS = 1.0
_log = get_logger(__name__)


class ServingLoop:
    """The loop that the V2 servers and the queues of all models share. Use it as a context
    that is left after everything that uses it has ended.

    Nothing in the loop may wait or compute for long. ``compute`` is for what takes processor time, ``wait_for`` for
    what waits for devices: a device that has stopped must not keep the threads from computing.
    """

    def __init__(self, threads: int = _THREADS) -> None:
        """``threads`` is how many calls of ``compute`` run at a time."""
        self.asyncio: asyncio.AbstractEventLoop
        """The loop itself, once it runs. Other threads may use its methods for that only."""
        self._computing = Workers(threads, "serving-compute")
        self._waiting = Workers(_MOST_WAITING, "serving-wait")
        self._thread = BriefThread(self._serve, "serving-loop")
        self.on_server_end: Callable[[], None] = lambda: None
        """Called, in the loop, when a server in it has ended by itself: the process must not go on without it."""

    def __enter__(self) -> ServingLoop:
        self.asyncio = uvloop.new_event_loop()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.asyncio.call_soon_threadsafe(self.asyncio.stop)
        self._thread.join()
        self._computing.shutdown()
        self._waiting.shutdown(wait=False)  # a thread may wait for a device that has stopped

    @property
    def is_here(self) -> bool:
        """Return whether the caller is in the loop's thread."""
        return threading.get_ident() == self._thread.ident

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for it in another thread. Raises as the coroutine does."""
        if self.is_here:
            coroutine.close()
            raise RuntimeError("the thread of the loop would wait for itself")
        return self.submit(coroutine).result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop, from another thread, without waiting for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.asyncio)

    def call(self, callback: Callable[[], object]) -> None:
        """Call back in the loop, from any thread; at once if this is the loop's thread."""
        if self.is_here:
            callback()
        else:
            self.asyncio.call_soon_threadsafe(callback)

    def listener_watch(self) -> ListenerWatch:
        """A watch of the listeners of servers in the loop: one that is silent has ended."""
        return ListenerWatch(lambda name: self.call(partial(self.server_ended, name)), self._is_on_time)

    def server_ended(self, server: str) -> None:
        """Tell, in the loop, that a server in it has ended by itself."""
        _log.critical("a server has ended by itself; the process ends, to be started again", server=server)
        self.on_server_end()

    def compute(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Call in a thread, in the context of the caller, and await the result in the loop."""
        call = partial(copy_context().run, partial(work, *args, **kwargs))
        return self.asyncio.run_in_executor(self._computing, call)

    def wait_for(self, work: Callable[[], object], context: Context) -> None:
        """Call in a thread, in a context, what may wait for devices, and must not raise."""
        self._waiting.start(partial(context.run, work))

    def _is_on_time(self) -> bool:
        """Return whether the loop gets its turn: a server in it that is silent is to blame only then."""
        answered = threading.Event()
        with suppress(RuntimeError):  # the loop has been closed
            self.call(answered.set)
        return answered.wait(_TURN_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.asyncio)
        self.asyncio.set_exception_handler(_log_defect)
        try:
            self.asyncio.run_forever()
            _cancel_all(self.asyncio)
            self.asyncio.run_until_complete(self.asyncio.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self.asyncio.close()


def _log_defect(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a callback of the loop, or a task that nobody awaits, has raised."""
    _log.error("the event loop met an error", reason=str(context.get("message")), exc_info=context.get("exception"))


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks that are left, and let them end."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_GRACE_SECONDS))
