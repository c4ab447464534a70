"""The memories that a program uses, and parts of them as arrays. Programs must have been checked before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal_mlip.program.program import OCM_BYTES, DdrRange, DdrTransfer, MlipProgram, OcmView, Strided
from nnhal_mlip.program.sizes import tiles_of
from nnhal_mlip.simulator.elements import ELEMENT_DTYPES


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
    """Return a tensor in the OCM of a tile."""
    return np.ndarray(view.shape, ELEMENT_DTYPES[view.type], tile.data, view.address, view.strides)
