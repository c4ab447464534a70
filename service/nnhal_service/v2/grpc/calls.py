"""Parts that all calls of the gRPC server share: their form, how many are open, and their work in threads.

A call is a coroutine, which gRPC cancels if the client cancels its call or leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import grpc.aio

from nnhal_service.serving.errors import ErrorKind, ServingError

I = TypeVar("I")  # noqa: E741 - input
O = TypeVar("O")  # noqa: E741 - output
T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]
Call = Callable[[I, Context], Coroutine[Any, Any, O]]
"""A unary call takes the request and returns the response; a stream reads and writes with the context."""


class OpenLimit:
    """Limits how many calls are open at a time; it is the context of each. It belongs to the loop's thread."""

    def __init__(self, limit: int, what: str) -> None:
        """``what`` says in errors what is limited, such as "streams"."""
        self._limit = limit
        self._what = what
        self._open = 0

    def limited(self, call: Call[I, O]) -> Call[I, O]:
        """Return the same call, which ends with RESOURCE_EXHAUSTED if too many are open."""

        async def admitted(request: I, context: Context) -> O:
            with self:
                return await call(request, context)

        return admitted

    def __enter__(self) -> None:
        if self._open >= self._limit:
            message = f"{self._limit} {self._what} are open, which is as many as may be at a time"
            raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, message)
        self._open += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open -= 1


async def ended(work: asyncio.Future[T]) -> T:
    """Await work in a thread. Its task may be cancelled, and nevertheless goes on only when the work has ended.

    So the memory that the work uses can be released afterwards. Raises as the work does, and CancelledError.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        raise
