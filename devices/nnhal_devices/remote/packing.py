"""Models as they are sent: without their large constants, which are named by digest."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.codec import model_to_wire
from nnhal.resolved import ResolvedModel
from nnhal.types import DataLocation, Operand, OperandLifeTime, Subgraph
from nnhal.v1 import wire_pb2 as wire

_INLINE_BYTES = 1024
"""Constants up to this size are sent with the model."""
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class PackedForWire:
    """A model as it is sent, and its large constants by digest."""

    message: wire.PackedModel
    constants: Mapping[bytes, Bytes]

    @property
    def digest(self) -> bytes:
        """Tells it from other models, and from those with other constants."""
        return hashlib.sha256(self.message.SerializeToString(deterministic=True)).digest()


def pack_model(resolved: ResolvedModel) -> PackedForWire:
    packer = _Packer()
    main, *referenced = (
        packer.pack(graph, constants) for graph, constants in zip(resolved.subgraphs, resolved.constants, strict=True)
    )
    model = replace(
        resolved.model, main=main, referenced=tuple(referenced), operand_values=bytes(packer.values), pools=()
    )
    message = wire.PackedModel(
        model=model_to_wire(model, lambda _: 0), constants=packer.parts, pool_bytes=packer.pool_bytes
    )
    return PackedForWire(message, packer.constants)


class ModelPacker:
    """Packs each model once: that reads all of its constants. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packed: WeakKeyDictionary[ResolvedModel, PackedForWire] = WeakKeyDictionary()

    def pack(self, resolved: ResolvedModel) -> PackedForWire:
        """Return the packed model, the same one as long as the model is in use."""
        with self._lock:
            packed = self._packed.get(resolved)
        if packed is None:
            packed = pack_model(resolved)
            with self._lock:
                self._packed[resolved] = packed
        return packed


class _Packer:
    """Gives constants their new places."""

    def __init__(self) -> None:
        self.values = bytearray()
        self.parts: list[wire.PackedConstant] = []
        self.constants: dict[bytes, Bytes] = {}
        self.pool_bytes = 0
        self._offsets: dict[bytes, int] = {}

    def pack(self, graph: Subgraph, constants: Mapping[int, Array]) -> Subgraph:
        """Return a subgraph whose constants are where they are now."""
        operands = tuple(
            self._placed(operand, constants[index]) if index in constants else operand
            for index, operand in enumerate(graph.operands)
        )
        return replace(graph, operands=operands)

    def _placed(self, operand: Operand, value: Array) -> Operand:
        content: Bytes = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        if len(content) <= _INLINE_BYTES:
            self.values += bytes(-len(self.values) % _ALIGNMENT)
            location = DataLocation(0, len(self.values), len(content))
            self.values += content.data
            return replace(operand, lifetime=OperandLifeTime.CONSTANT_COPY, location=location)
        location = DataLocation(0, self._offset(content), len(content))
        return replace(operand, lifetime=OperandLifeTime.CONSTANT_POOL, location=location)

    def _offset(self, content: Bytes) -> int:
        digest = hashlib.sha256(content.data).digest()
        if digest not in self._offsets:
            self._offsets[digest] = self.pool_bytes
            self.parts.append(wire.PackedConstant(digest=digest, offset=self.pool_bytes, length=len(content)))
            self.constants[digest] = content
            self.pool_bytes += -(-len(content) // _ALIGNMENT) * _ALIGNMENT
        return self._offsets[digest]
