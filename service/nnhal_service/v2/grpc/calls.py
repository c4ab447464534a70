"""Parts that all calls of the gRPC server share: their form, how many are open, and their work in threads.

A call is a coroutine, which is cancelled if the client cancels its call or leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from nnhal.clock import now_ns
from nnhal.types import NO_DEADLINE
from nnhal_service.observability import TRACEPARENT
from nnhal_service.serving.errors import ErrorKind, ServingError, TooLargeError

T = TypeVar("T")
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
AUTHORIZATION = "authorization"


class BrokenStreamError(ServingError):
    """What a client has sent is no stream of messages, or too long a message: nothing after it can be read."""


class LongMessageError(BrokenStreamError, TooLargeError):
    """A message that is longer than one may be."""


class CallHead(NamedTuple):
    """The head of a call, which most calls of a connection have in common but for the deadline."""

    path: bytes
    timeout: float | None
    """In seconds; None without a deadline."""
    encoding: bytes
    metadata: Metadata
    """Names are in lower case; values are bytes if they end in ``-bin``."""
    authorization: str
    """From the metadata, as the next one; empty if the client has sent none."""
    traceparent: str

    @classmethod
    def of(cls, path: bytes, timeout: float | None, encoding: bytes, metadata: Metadata) -> CallHead:
        found = dict(reversed(metadata))
        authorization, traceparent = (str(found.get(key, "")) for key in (AUTHORIZATION, TRACEPARENT))
        return cls(path, timeout, encoding, metadata, authorization, traceparent)


class CallPeer(Protocol):
    """The client at the other end of a call's connection."""

    name: str
    """Its address. All clients of a unix socket have the same."""
    user_is_admitted: bool
    """True if its user has been admitted; set it once that is so."""


class GrpcContext(Protocol):
    """A call, as what serves it sees it. Each of the two servers gives its own."""

    @property
    def peer(self) -> CallPeer:
        """The client."""

    @property
    def head(self) -> CallHead:
        """What the client has sent before its messages."""

    @property
    def deadline_ns(self) -> int:
        """The instant of CLOCK_BOOTTIME by which the call must have ended; NO_DEADLINE without one."""

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """Have this sent with the status."""

    async def read(self) -> bytes | None:
        """Return the next message, perhaps compressed; None after the last. Raises ServingError if it is refused."""

    async def write(self, message: bytes) -> None:
        """Send a message of a stream. Returns when it is on its way."""


Call: TypeAlias = Callable[[bytes, GrpcContext], Coroutine[Any, Any, bytes]]
"""A unary call takes the request and returns the response. Its caller should drop the request, which it holds."""
StreamCall: TypeAlias = Callable[[GrpcContext], Coroutine[Any, Any, None]]
"""A stream reads and writes with the context."""


class OpenLimit:
    """Limits how many calls are open at a time; it is the context of each. It belongs to the loop's thread."""

    def __init__(self, limit: int, what: str) -> None:
        """``what`` says in errors what is limited, such as "streams"."""
        self.most = limit
        self._what = what
        self.open = 0
        """How many are; whoever opens one that is let in counts it, and counts it off at its end."""

    def __enter__(self) -> None:
        if self.open >= self.most:
            raise self.refusal()
        self.open += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open -= 1

    def refusal(self) -> ServingError:
        """The error for one more than may be open."""
        message = f"{self.most} {self._what} are open, which is as many as may be at a time"
        return ServingError(ErrorKind.RESOURCE_EXHAUSTED, message)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service, and what serves its calls: ``unary`` or ``stream``."""

    path: str
    """Its full name, such as ``/inference.GRPCInferenceService/ModelInfer``."""
    limit: OpenLimit
    """Bounds its calls, perhaps with those of other methods."""
    unary: Call | None = None
    stream: StreamCall | None = None
    admit: Callable[[GrpcContext], None] | None = None
    """Raises ServingError if a call of which no message has come is refused; None if none is as yet."""
    note_refused: Callable[[Exception, GrpcContext], object] = lambda *_: None
    """Is called with the error of each call that ends with one."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def deadline_in(seconds: float | None) -> int:
    """Return the instant of CLOCK_BOOTTIME after so many seconds; NO_DEADLINE for None."""
    return NO_DEADLINE if seconds is None else now_ns() + int(seconds * 1e9)


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
