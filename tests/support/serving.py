"""Runs of batches that a test holds and releases, in place of instances."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.batcher import Batcher
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.queue import NEVER, Ticket
from tests.support.waiting import wait_until


class Named(Ticket):
    """A ticket with a name."""

    __slots__ = ("name",)

    def __init__(
        self,
        name: str,
        size: int = 1,
        key: Hashable = None,
        priority: int = 0,
        timeout_ns: int = 0,
        deadline_ns: int = NEVER,
    ) -> None:
        super().__init__(size, key, priority, timeout_ns, deadline_ns)
        self.name = name


class Held:
    """A batch whose run lasts until ``let_go``."""

    def __init__(self, batch: Sequence[Named]) -> None:
        self.names = [ticket.name for ticket in batch]
        self.thread = threading.current_thread()
        self._end = threading.Event()

    def let_go(self) -> None:
        """Let the run end."""
        self._end.set()

    def wait(self) -> None:
        """Wait until ``let_go``."""
        assert self._end.wait(60)


class Rig:
    """A batcher whose runs are held. The end of its context releases all of them."""

    def __init__(self, config: ServingConfig, clock: Callable[[], int] | None = None) -> None:
        self._started: queue.Queue[Held] = queue.Queue()
        self._all: list[Held] = []
        self._freed = threading.Event()
        self._threads = ThreadPoolExecutor(64)
        self.batcher: Batcher[Named] = (
            Batcher(config, self._run) if clock is None else Batcher(config, self._run, clock)
        )

    def submit(self, ticket: Named, cancellation: Cancellation | None = None) -> Future[None]:
        """Submit a ticket in a separate thread, and return when it runs or waits, or has failed."""
        before, running = self.batcher.pending, len(self._all)
        future = self._threads.submit(self.batcher.submit, ticket, cancellation or Cancellation())
        wait_until(
            lambda: self.batcher.pending != before or len(self._all) != running or future.done(), "the ticket is queued"
        )
        return future

    def next(self) -> Held:
        """Wait for the next batch that runs, and return it."""
        return self._started.get(timeout=60)

    def _run(self, batch: Sequence[Named]) -> None:
        held = Held(batch)
        self._all.append(held)
        self._started.put(held)
        if not self._freed.is_set():
            held.wait()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self._freed.set()
        for held in list(self._all):
            held.let_go()
        self.batcher.close()
        self._threads.shutdown()
