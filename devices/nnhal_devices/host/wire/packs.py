"""Models of clients of the wire, whose constants are packed into one memory each."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import invalid_argument
from nnhal.memory import create_read_only
from nnhal.remote.calls import Calls
from nnhal.types import Ashmem
from nnhal.v1 import memory_pb2, model_pb2
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.host.wire.constants import KeptConstants, Uploads
from nnhal_devices.host.wire.limits import SessionBudget

_KEPT_PACKS = 4
"""A model is assessed, optimised and prepared one after the other."""


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
        self._lock = threading.Lock()
        self._packs: OrderedDict[bytes, Ashmem] = OrderedDict()

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
        with self._lock:
            self._packs.clear()

    def _pack(self, packed: wire.PackedModel) -> Ashmem:
        key = b"".join(b"%b%d,%d;" % (each.digest, each.offset, each.length) for each in packed.constants)
        with self._lock:
            found = self._packs.get(key)
            if found is not None and found.size == packed.pool_bytes:
                self._packs.move_to_end(key)
                return found
        pack = self._packed(packed)
        with self._lock:
            self._packs[key] = pack
            while len(self._packs) > _KEPT_PACKS:
                self._packs.popitem(last=False)
        return pack

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
        self._budget.take(packed.pool_bytes, "the constants of a model", 0)
        try:
            return create_read_only(contents, packed.pool_bytes, "nnhal-wire-constants")
        finally:
            self._budget.give(packed.pool_bytes, 0)
