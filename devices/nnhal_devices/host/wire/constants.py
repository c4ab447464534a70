"""Constants that clients have sent, by digest: each is sent once and kept.

Those of one client cannot be used by another, which might know no more of them than their digest. Clients are the same
if they show the same token, or certificates of the same name. For the device, those of a model are one pool, its pack.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import invalid_argument
from nnhal.memory import create_read_only
from nnhal.remote.calls import Calls
from nnhal.shares import NOBODY, acting_for
from nnhal.types import Ashmem
from nnhal.v1 import memory_pb2, model_pb2
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.host.wire.limits import SessionBudget, WireLimits, exhausted
from nnhal_devices.remembered import Remembered
from nnhal_devices.wire import CHUNK_BYTES

_KEPT_PACKS = 4
"""A model is assessed, optimised and prepared one after the other."""
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
                self._budget.give(NOBODY, len(part), 0)
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
        with acting_for(NOBODY):  # all that the session has begun counts as its own: anybody's call may end it
            self._budget.take(len(chunk), "an upload", 0)
        part += chunk

    def _put_back(self, digest: bytes, part: bytearray, length: int) -> None:
        """Keep an unfinished upload for the session; of two at a time the first stays."""
        with self._lock:
            if part and len(part) < length and digest not in self._parts:
                self._parts[digest] = part
                return
        self._budget.give(NOBODY, len(part), 0)

    def _finish(self, digest: bytes, part: bytearray) -> None:
        found = hashlib.sha256(part).digest()
        if found != digest:
            invalid_argument(f"a constant of {len(part)} bytes with digest {found.hex()}, expected {digest.hex()}")
        self._kept.add(self._client, digest, bytes(part))


class MissingConstantsError(Exception):
    """The client must send constants first."""

    def __init__(self, missing: list[wire.MissingConstant]) -> None:
        super().__init__(f"{len(missing)} constants are missing")
        self.missing = missing


class ConstantPacks:
    """The packs of one session. The last few are kept. Safe to use from several threads."""

    def __init__(self, calls: Calls, client: str, kept: KeptConstants, uploads: Uploads, budget: SessionBudget) -> None:
        self._calls = calls
        self._client = client
        self._kept = kept
        self._uploads = uploads
        self._budget = budget
        self._packs: Remembered[Ashmem] = Remembered(_KEPT_PACKS)

    def model(self, packed: wire.PackedModel) -> model_pb2.Model:
        """Return the model with its pool, as the device takes it.

        Raises MissingConstantsError, INVALID_ARGUMENT if the pack is wrong, RESOURCE_EXHAUSTED_TRANSIENT if it is too
        large.
        """
        if packed.model.pools:
            invalid_argument(f"a model with {len(packed.model.pools)} pools, expected none: no descriptor passes here")
        if packed.constants:
            pack = self._pack(packed)
            pool = memory_pb2.Ashmem(descriptor_id=self._calls.issue(pack.descriptor), size=pack.size)
            packed.model.pools.append(memory_pb2.Memory(ashmem=pool))
        return packed.model

    def close(self) -> None:
        """Forget the packs."""
        self._packs = Remembered(0)

    def _pack(self, packed: wire.PackedModel) -> Ashmem:
        key = b"".join(b"%b%d,%d;" % (each.digest, each.offset, each.length) for each in packed.constants)
        found = self._packs.get(key)
        if found is not None and found.size == packed.pool_bytes:
            return found
        return self._packs.add(key, self._packed(packed))

    def _packed(self, packed: wire.PackedModel) -> Ashmem:
        contents: list[tuple[int, Bytes]] = []
        missing: list[wire.MissingConstant] = []
        for part in packed.constants:
            constant = self._kept.get(self._client, part.digest)
            if constant is None:
                received = self._uploads.received(part.digest)
                missing.append(wire.MissingConstant(digest=part.digest, received_bytes=received))
                continue
            if len(constant) != part.length or not 0 <= part.offset <= packed.pool_bytes - part.length:
                invalid_argument(
                    f"a constant of {len(constant)} bytes at byte {part.offset} of a pool of {packed.pool_bytes}, "
                    f"expected {part.length} bytes within it"
                )
            contents.append((part.offset, np.frombuffer(constant, np.uint8)))
        if missing:
            raise MissingConstantsError(missing)
        client = self._budget.take(packed.pool_bytes, "the constants of a model", 0)
        try:
            return create_read_only(contents, packed.pool_bytes, "nnhal-wire-constants")
        finally:
            self._budget.give(client, packed.pool_bytes, 0)
