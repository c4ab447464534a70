"""The memories that a program uses, and parts of them as arrays. Programs must have been checked before."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal_mlip.program.program import OCM_BYTES, DdrRange, DdrTransfer, MlipProgram, OcmView, Strided, TensorType
from nnhal_mlip.program.sizes import tiles_of

ELEMENT_DTYPES: Mapping[TensorType, np.dtype[np.generic]] = MappingProxyType(
    {
        TensorType.INT8: np.dtype("<i1"),
        TensorType.UINT8: np.dtype("<u1"),
        TensorType.INT16: np.dtype("<i2"),
        TensorType.UINT16: np.dtype("<u2"),
        TensorType.INT32: np.dtype("<i4"),
        TensorType.UINT32: np.dtype("<u4"),
        TensorType.FP16: np.dtype("<f2"),
        TensorType.FP32: np.dtype("<f4"),
        TensorType.INT64: np.dtype("<i8"),
        TensorType.UINT64: np.dtype("<u8"),
    }
)


def is_float(type_: TensorType) -> bool:
    """Return whether values of a type are real numbers, which have no scale."""
    return type_ in (TensorType.FP16, TensorType.FP32)


class TileMemories:
    """The OCM of each tile, and the ranges of DDR. Elements are bytes, or whatever else is kept for each byte."""

    def __init__(self, ocm: Array, ddr: Mapping[DdrRange, Array]) -> None:
        """``ocm`` is [tiles, bytes]."""
        self.ocm, self.ddr = ocm, ddr

    def transfer(self, transfer: DdrTransfer) -> None:
        """Move the bytes of a transfer."""
        ddr = pieces(self.ddr[transfer.ddr], transfer.ddr_bytes)
        for tile in tiles_of(transfer.tiles):
            ocm = pieces(self.ocm[tile], transfer.ocm_bytes)
            if transfer.store:
                ddr[...] = ocm.reshape(ddr.shape)
            else:
                ocm[...] = ddr.reshape(ocm.shape)

    def copy(self, source: int, source_bytes: Strided, tiles: int, target_bytes: Strided) -> None:
        """Copy between tiles: all is read before anything is written."""
        values = pieces(self.ocm[source], source_bytes).copy()
        for tile in tiles_of(tiles):
            target = pieces(self.ocm[tile], target_bytes)
            target[...] = values.reshape(target.shape)


def fresh_memories(program: MlipProgram, weights: Array, input_bytes: Array, dtype: type[np.generic]) -> TileMemories:
    """Return memories that hold zeros, and what DDR holds before a run."""
    ddr = {
        DdrRange.WEIGHTS: weights,
        DdrRange.INPUTS: input_bytes,
        DdrRange.OUTPUTS: np.zeros(ddr_bytes(program, DdrRange.OUTPUTS), dtype),
        DdrRange.SCRATCH: np.zeros(program.scratch_bytes, dtype),
    }
    return TileMemories(np.zeros((program.tiles, OCM_BYTES), dtype), ddr)


def ddr_bytes(program: MlipProgram, range_: DdrRange) -> int:
    """Return how many bytes of DDR a program's inputs or outputs take."""
    ports = program.inputs if range_ == DdrRange.INPUTS else program.outputs
    return max((port.offset + port.bytes for port in ports), default=0)


def pieces(memory: Array, bytes_: Strided) -> Array:
    """Return a part of a memory of one axis: [pieces, length]."""
    shape, size = (bytes_.pieces, bytes_.length), memory.itemsize
    return np.ndarray(shape, memory.dtype, memory.data, bytes_.start * size, (bytes_.stride * size, size))


def view_of(tile: Bytes, view: OcmView) -> Array:
    return np.ndarray(view.shape, ELEMENT_DTYPES[view.type], tile.data, view.address, view.strides)
