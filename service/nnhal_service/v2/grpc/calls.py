"""What all calls of the gRPC server have in common: their form, how many are open, and their work in threads.

A call is a coroutine, which gRPC cancels if the client cancels its call or leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
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
    """Limits how many calls are open at a time. It belongs to the loop's thread."""

    def __init__(self, limit: int, what: str) -> None:
        """``what`` says in errors what is limited, such as "streams"."""
        self._limit = limit
        self._what = what
        self._open = 0

    def limited(self, call: Call[I, O]) -> Call[I, O]:
        """The same call, which ends with RESOURCE_EXHAUSTED if too many are open."""

        async def admitted(request: I, context: Context) -> O:
            if self._open >= self._limit:
                message = f"{self._limit} {self._what} are open, which is as many as may be at a time"
                raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, message)
            self._open += 1
            try:
                answer = call(request, context)
                # If the call is aborted, this frame waits for the garbage collector: the request must not.
                del request
                return await answer
            finally:
                self._open -= 1

        return admitted


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
