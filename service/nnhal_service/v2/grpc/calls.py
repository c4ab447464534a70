"""Parts that all calls of the gRPC server share: their form, how many are open, and their work in threads.

A call is a coroutine, which is cancelled if the client cancels its call or leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeAlias, TypeVar

from nnhal_service.serving.errors import ErrorKind, ServingError

T = TypeVar("T")
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]


class BrokenStreamError(ServingError):
    """What a client has sent is no stream of messages, or too long a message: nothing after it can be read."""


class GrpcContext(Protocol):
    """A call, as what serves it sees it. Each of the two servers gives its own."""

    user_is_admitted: bool
    """True if the user at the other end of the connection has been admitted; set it once that is so."""

    def peer(self) -> str:
        """Return the address of the connection. All clients of a unix socket have the same address."""

    def invocation_metadata(self) -> Metadata:
        """Return what the client has sent with its call. Names are in lower case; values are bytes if they end in
        ``-bin``.
        """

    def time_remaining(self) -> float | None:
        """Return the seconds until the call's deadline; None without one."""

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """Have this sent with the status."""

    async def read(self) -> bytes | None:
        """Return the next message, perhaps compressed; None after the last. Raises ServingError if it is refused."""

    async def write(self, message: bytes) -> None:
        """Send a message of a stream. Returns when it is on its way."""


Call: TypeAlias = Callable[[bytes, GrpcContext], Coroutine[Any, Any, bytes]]
"""A unary call takes the request and returns the response."""
StreamCall: TypeAlias = Callable[[GrpcContext], Coroutine[Any, Any, None]]
"""A stream reads and writes with the context."""


class OpenLimit:
    """Limits how many calls are open at a time; it is the context of each. It belongs to the loop's thread."""

    def __init__(self, limit: int, what: str) -> None:
        """``what`` says in errors what is limited, such as "streams"."""
        self._limit = limit
        self._what = what
        self._open = 0

    def __enter__(self) -> None:
        if self._open >= self._limit:
            message = f"{self._limit} {self._what} are open, which is as many as may be at a time"
            raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, message)
        self._open += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open -= 1


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service, and what serves its calls: ``unary`` or ``stream``."""

    path: str
    """Its full name, such as ``/inference.GRPCInferenceService/ModelInfer``."""
    limit: OpenLimit
    """Bounds its calls, perhaps with those of other methods."""
    unary: Call | None = None
    stream: StreamCall | None = None
    admit: Callable[[bytes, GrpcContext], None] | None = None
    """Raises ServingError if a call with this message is refused; None if none ever is."""
    admits_by_message: bool = False
    """True if whether a call is admitted depends on its message; otherwise it is admitted before that has come."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def admit_early(self, context: GrpcContext) -> None:
        """Admit a call of which no message has come, if that is enough. Raises ServingError."""
        if self.admit is not None and not self.admits_by_message:
            self.admit(b"", context)

    async def answer(self, message: bytes, context: GrpcContext) -> bytes:
        """Serve a unary call that ``admit_early`` has let pass."""
        assert self.unary is not None
        if self.admit is not None and self.admits_by_message:
            self.admit(message, context)
        with self.limit:
            answer = self.unary(message, context)
            del message  # this frame waits for the answer: the message must not
            return await answer

    async def serve(self, context: GrpcContext) -> None:
        """Serve a stream that ``admit_early`` has let pass."""
        assert self.stream is not None
        with self.limit:
            await self.stream(context)


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
