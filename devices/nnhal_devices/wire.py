"""Parts that both ends of a wire share: its version and metadata, and values as chunks of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import invalid_argument

PROTOCOL_VERSION = 1
SESSION_TOKEN_METADATA = "nnhal-wire-session"
"""The metadata that carries the session's token."""
CHUNK_BYTES = 1 << 20
"""The most bytes of tensors or constants in one message."""
KEEPALIVE_OPTIONS = (
    # Both ends ask after each other, so that a cut cable or a stopped host is noticed within seven seconds.
    ("grpc.keepalive_time_ms", 3000),
    ("grpc.keepalive_timeout_ms", 4000),
    ("grpc.http2.ping_timeout_ms", 4000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
)
"""Options of gRPC for channels and servers."""


def joined(places: Sequence[Bytes]) -> bytes:
    """Return the bytes of all places, one after the other."""
    return places[0].tobytes() if len(places) == 1 else b"".join(place.data for place in places)


def chunks_of(places: Sequence[Bytes]) -> Iterator[bytes]:
    """Yield the bytes of all places, one after the other, in chunks that do not go across places."""
    for place in places:
        for start in range(0, len(place), CHUNK_BYTES):
            yield place[start : start + CHUNK_BYTES].tobytes()


class Scatter:
    """Fills places with the bytes of a stream, one after the other."""

    def __init__(
        self, places: Sequence[Bytes], what: str, refuse: Callable[[str], NoReturn] = invalid_argument
    ) -> None:
        """``what`` names the bytes in messages, and ``refuse`` raises what they are said in."""
        self._places = places
        self._what = what
        self._raise = refuse
        self._index = 0
        self._offset = 0
        self._received = 0

    def feed(self, chunk: bytes) -> None:
        """Write the next bytes. Raises HalError if they are too many."""
        rest = np.frombuffer(chunk, np.uint8)
        self._received += len(rest)
        while len(rest):
            if self._index == len(self._places):
                self._refuse()
            place = self._places[self._index]
            count = min(len(rest), len(place) - self._offset)
            place[self._offset : self._offset + count] = rest[:count]
            rest, self._offset = rest[count:], self._offset + count
            if self._offset == len(place):
                self._index, self._offset = self._index + 1, 0

    def require_full(self) -> None:
        """Raise HalError if bytes are missing."""
        if self._received != self._total:
            self._refuse()

    @property
    def _total(self) -> int:
        return sum(len(place) for place in self._places)

    def _refuse(self) -> None:
        self._raise(f"{self._received} bytes of {self._what}, expected {self._total}")
