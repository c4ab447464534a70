"""Messages of gRPC as they come over HTTP/2, behind a byte that says whether they are compressed, and their length."""

from __future__ import annotations

import struct
from collections import deque

from nnhal_hosting.http2 import Stream
from nnhal_service.access import Charge, RequestMemoryBudget
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.grpc.calls import BrokenStreamError, LongMessageError
from nnhal_service.v2.grpc.compression import is_compressed

PREFIX = struct.Struct(">BI")
_IDENTITY = b"identity"
_KNOWN = (b"gzip", b"deflate")


class IncomingMessages:
    """Cuts what comes on a stream into messages.

    A message that does not come at once is charged by the length that it says, before more of it may come: what is not
    charged is no more than the stream's window.
    """

    __slots__ = (
        "_charge",
        "_compressed",
        "_encoding",
        "_length",
        "_limit",
        "_pieces",
        "_size",
        "_skip",
        "_stream",
        "_taken",
    )

    def __init__(self, stream: Stream, encoding: bytes, limit: int) -> None:
        """``limit`` is the longest message in bytes; -1 for any length."""
        self._stream = stream
        self._encoding = encoding
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0
        """The bytes of the pieces."""
        self._length = -1
        """That of the message that comes; -1 until its prefix has come."""
        self._compressed = 0
        self._charge: Charge | None = None
        self._taken = 0
        """Bytes of the message that comes in place of which the client may have sent others."""
        self._skip = 0
        """Bytes of a message that was refused and is still to come."""

    @property
    def has_begun(self) -> bool:
        """True if a part of a message has come."""
        return self._size > 0 or self._length >= 0

    def add(self, data: bytes) -> None:
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            self._stream.take(skipped)
            data = data[skipped:]
        if data:
            self._pieces.append(data)
            self._size += len(data)

    def cut(self, budget: RequestMemoryBudget) -> bytes | None:
        """Return the next message, None if it has not come. Its charge, if it has one, lasts until ``release``.

        Raises ServingError: BrokenStreamError, or RESOURCE_EXHAUSTED if the budget refuses the message, after which the
        next one may be cut.
        """
        if self._length < 0:
            if self._size < PREFIX.size:
                return None
            self._begin()
        if self._size < self._length:
            if self._charge is None:
                self._have_charged(budget)
            self._take(self._size)
            return None
        self._take(self._length)
        message = self._joined(self._length)
        self._length, self._taken = -1, 0
        if self._compressed and not is_compressed(message):
            raise BrokenStreamError(ErrorKind.INVALID_ARGUMENT, "a message is said to be compressed and is not")
        return message

    def release(self) -> None:
        """Give back what is charged; harmless if nothing is."""
        charge, self._charge = self._charge, None
        if charge is not None:
            charge.release()

    def _begin(self) -> None:
        first = self._pieces.popleft()
        while len(first) < PREFIX.size:
            first += self._pieces.popleft()
        self._compressed, length = PREFIX.unpack_from(first)
        if 0 <= self._limit < length:
            raise LongMessageError(
                ErrorKind.RESOURCE_EXHAUSTED, f"a message of {length} bytes is larger than max, {self._limit}"
            )
        if self._compressed > 1 or (self._compressed and self._encoding not in _KNOWN):
            raise self._wrong_encoding()
        self._length = length
        self._size -= PREFIX.size
        self._stream.take(PREFIX.size)
        if len(first) > PREFIX.size:
            self._pieces.appendleft(first[PREFIX.size :])

    def _wrong_encoding(self) -> BrokenStreamError:
        if self._compressed > 1 or self._encoding == _IDENTITY:
            message = f"a message begins with {self._compressed}, expected 0, or 1 with a grpc-encoding"
            return BrokenStreamError(ErrorKind.INTERNAL, message)
        known = ", ".join(name.decode() for name in (_IDENTITY, *_KNOWN))
        message = f"a message is compressed with {self._encoding[:80]!r}, expected one of {known}"
        return BrokenStreamError(ErrorKind.UNSUPPORTED, message)

    def _have_charged(self, budget: RequestMemoryBudget) -> None:
        try:
            self._charge = budget.charge(self._length)
        except ServingError:
            self._take(self._size)
            self._skip, self._length, self._taken = self._length - self._size, -1, 0
            self._pieces.clear()
            self._size = 0
            raise
        self._stream.widen()

    def _take(self, size: int) -> None:
        """Have the client send on after so many bytes of the message that comes."""
        if size > self._taken:
            self._stream.take(size - self._taken)
            self._taken = size

    def _joined(self, size: int) -> bytes:
        if not size:
            return b""
        parts = []
        self._size -= size
        while size:
            piece = self._pieces.popleft()
            if len(piece) > size:
                self._pieces.appendleft(piece[size:])
                piece = piece[:size]
            parts.append(piece)
            size -= len(piece)
        return parts[0] if len(parts) == 1 else b"".join(parts)
