"""BATCH_MATMUL."""

from __future__ import annotations

from nnhal.operations.matrix import BatchMatmulInput
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def batch_matmul(to: Emitter) -> None:
    """Matrices are transposed as asked before they are multiplied."""
    first = _oriented(to, BatchMatmulInput.FIRST, to.op.boolean(BatchMatmulInput.TRANSPOSE_FIRST))
    second = _oriented(to, BatchMatmulInput.SECOND, to.op.boolean(BatchMatmulInput.TRANSPOSE_SECOND))
    to.keep_real(to.graph.add("MatMul", first, second))


def _oriented(to: Emitter, position: int, transpose: bool) -> str:
    if not transpose:
        return to.real(position)
    rank = len(to.op.ranked(position))
    return to.graph.add("Transpose", to.real(position), perm=[*range(rank - 2), rank - 1, rank - 2])
