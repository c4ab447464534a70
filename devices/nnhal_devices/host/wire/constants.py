"""Constants that clients have sent, by digest: each is sent once and kept.

Those of one client cannot be used by another, which might know no more of them than their digest. Clients are the same
if they show the same token, or certificates of the same name.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator

from nnhal.errors import invalid_argument
from nnhal_devices.host.wire.limits import SessionBudget, WireLimits, exhausted
from nnhal_devices.wire import CHUNK_BYTES

_DIGEST_BYTES = 32
_Key = tuple[str, bytes]


class KeptConstants:
    """The constants that a process keeps. The least recently used are dropped first. Safe to use from threads."""

    def __init__(self, limit: int) -> None:
        """``limit`` is in bytes."""
        self.limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, bytes] = OrderedDict()
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """The bytes of all constants."""
        return self._bytes

    def get(self, client: str, digest: bytes) -> bytes | None:
        """Return a constant of a client; None if it is not there."""
        with self._lock:
            found = self._kept.get((client, digest))
            if found is not None:
                self._kept.move_to_end((client, digest))
            return found

    def add(self, client: str, digest: bytes, constant: bytes) -> None:
        """Keep a constant that is no larger than the limit."""
        with self._lock:
            if (client, digest) in self._kept:
                return
            self._kept[client, digest] = constant
            self._bytes += len(constant)
            while self._bytes > self.limit:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= len(dropped)


class Uploads:
    """The constants of one session that have not come completely. Safe to use from several threads."""

    def __init__(self, client: str, kept: KeptConstants, limits: WireLimits, budget: SessionBudget) -> None:
        self._client = client
        self._kept = kept
        self._limits = limits
        self._budget = budget
        self._lock = threading.Lock()
        self._parts: dict[bytes, bytearray] = {}

    def received(self, digest: bytes) -> int:
        """Return how many of the first bytes of a constant have come."""
        with self._lock:
            return len(self._parts.get(digest, b""))

    def receive(self, digest: bytes, length: int, offset: int, chunks: Iterator[bytes]) -> int:
        """Take the bytes of a constant from ``offset`` on, and return how many of it are there.

        What has come is kept for the rest of the session if ``chunks`` ends early. Raises INVALID_ARGUMENT if offset,
        chunks or digest are wrong, RESOURCE_EXHAUSTED_TRANSIENT if the constant is too large.
        """
        if len(digest) != _DIGEST_BYTES:
            invalid_argument(f"a digest of {len(digest)} bytes, expected {_DIGEST_BYTES}")
        if length > self._limits.upload_bytes:
            exhausted(f"a constant of {length} bytes", f"at most {self._limits.upload_bytes}", "upload_bytes")
        if length > self._kept.limit:
            exhausted(f"a constant of {length} bytes", f"at most {self._kept.limit}", "constant_bytes")
        part = self._take(digest, offset)
        try:
            for chunk in chunks:
                self._extend(part, chunk, length)
            if len(part) < length:
                return len(part)
        finally:
            self._put_back(digest, part, length)
        self._finish(digest, part)
        return length

    def close(self) -> None:
        """Forget what has come."""
        with self._lock:
            for part in self._parts.values():
                self._budget.give(len(part), 0)
            self._parts.clear()

    def _take(self, digest: bytes, offset: int) -> bytearray:
        with self._lock:
            part = self._parts.pop(digest, bytearray())
            if offset != len(part):
                self._parts[digest] = part
                invalid_argument(
                    f"a constant from byte {offset} on, expected the first byte that is missing: {len(part)}"
                )
            return part

    def _extend(self, part: bytearray, chunk: bytes, length: int) -> None:
        if len(chunk) > CHUNK_BYTES:
            invalid_argument(f"a chunk of {len(chunk)} bytes, expected at most {CHUNK_BYTES}")
        if len(part) + len(chunk) > length:
            invalid_argument(f"{len(part) + len(chunk)} bytes of a constant, expected {length}")
        self._budget.take(len(chunk), "an upload", 0)
        part += chunk

    def _put_back(self, digest: bytes, part: bytearray, length: int) -> None:
        """Keep an unfinished upload for the session; of two at a time the first stays."""
        with self._lock:
            if part and len(part) < length and digest not in self._parts:
                self._parts[digest] = part
                return
        self._budget.give(len(part), 0)

    def _finish(self, digest: bytes, part: bytearray) -> None:
        found = hashlib.sha256(part).digest()
        if found != digest:
            invalid_argument(f"a constant of {len(part)} bytes with digest {found.hex()}, expected {digest.hex()}")
        self._kept.add(self._client, digest, bytes(part))
