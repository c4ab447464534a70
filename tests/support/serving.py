"""Runs of batches that a test holds and releases, in place of instances."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from functools import cache

from nnhal_service.runtime import LoadedModel
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving import ServedModel
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.queue.batcher import Batcher
from nnhal_service.serving.queue.request_queue import NEVER, Ticket
from tests.support.waiting import wait_until


@cache
def shared_loop() -> ServingLoop:
    return ServingLoop().__enter__()


def serve_model(name: str, version: str, loaded: LoadedModel, config: ServingConfig) -> ServedModel:
    return ServedModel(name, version, loaded, config, shared_loop())


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

    def __init__(self, batch: Sequence[Named], ended: Callable[[], None]) -> None:
        self.names = [ticket.name for ticket in batch]
        self.thread = threading.current_thread()
        self._ended = [ended]

    def let_go(self) -> None:
        """Let the run end, if it has not."""
        while self._ended:
            shared_loop().call(self._ended.pop())


class Rig:
    """A batcher whose runs are held. The end of its context releases all of them."""

    def __init__(self, config: ServingConfig, clock: Callable[[], int] | None = None) -> None:
        self._started: queue.Queue[Held] = queue.Queue()
        self._all: list[Held] = []
        self._freed = threading.Event()
        self._loop = shared_loop()
        self.batcher: Batcher[Named] = (
            Batcher(config, self._start, self._loop)
            if clock is None
            else Batcher(config, self._start, self._loop, clock)
        )

    def submit(self, ticket: Named, cancellation: Cancellation | None = None) -> Future[None]:
        """Submit a ticket, and return when it runs or waits, or has failed."""
        before, running = self.batcher.pending, len(self._all)
        submitting = self.batcher.submit(ticket, cancellation or Cancellation())
        future = asyncio.run_coroutine_threadsafe(submitting, self._loop.asyncio)
        wait_until(
            lambda: self.batcher.pending != before or len(self._all) != running or future.done(), "the ticket is queued"
        )
        return future

    def next(self) -> Held:
        """Wait for the next batch that runs, and return it."""
        return self._started.get(timeout=60)

    def submit_and_wait(self, ticket: Named, cancellation: Cancellation | None = None) -> None:
        """Submit a ticket, and return when it has run. Raises as Batcher.submit."""
        self._loop.run(self.batcher.submit(ticket, cancellation or Cancellation()))

    def close(self) -> None:
        self._loop.run(self.batcher.close())

    def _start(self, batch: Sequence[Named], ended: Callable[[], None]) -> None:
        held = Held(batch, ended)
        self._all.append(held)
        self._started.put(held)
        if self._freed.is_set():
            held.let_go()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self._freed.set()
        for held in list(self._all):
            held.let_go()
        self.close()
