"""How many streams may be open at a time. Each holds a thread of the server for as long as its client likes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import grpc

I = TypeVar("I")  # noqa: E741 - input
O = TypeVar("O")  # noqa: E741 - output
Stream = Callable[[Iterator[I], grpc.ServicerContext], Iterator[O]]


class StreamLimit:
    """Counts the streams of all services of a server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = threading.BoundedSemaphore(limit)

    def limited(self, behaviour: Stream[I, O]) -> Stream[I, O]:
        """The same call, which ends with RESOURCE_EXHAUSTED where too many are open."""

        def call(requests: Iterator[I], context: grpc.ServicerContext) -> Iterator[O]:
            if not self._free.acquire(blocking=False):
                message = f"{self._limit} streams are open, which is as many as may be at a time"
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
            try:
                yield from behaviour(requests, context)
            finally:
                self._free.release()

        return call
