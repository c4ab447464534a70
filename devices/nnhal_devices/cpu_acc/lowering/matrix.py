"""FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from nnhal.operations.matrix import BatchMatmulInput, FullyConnectedInput
from nnhal.operations.windows import activation_of
from nnhal_devices.cpu_acc.elements import QUANTIZED, quantization_of
from nnhal_devices.cpu_acc.lowering._weights import bias_of, filter_of
from nnhal_devices.cpu_acc.lowering.emitter import Emitter


def fully_connected(to: Emitter) -> None:
    """The input is reshaped to rows as long as those of the weights."""
    bias = bias_of(to, FullyConnectedInput.BIAS, FullyConnectedInput.INPUT, FullyConnectedInput.WEIGHTS)
    weights = filter_of(to, FullyConnectedInput.WEIGHTS, (0, 1))
    result = to.graph.add("Gemm", _rows(to), weights, bias, transB=1)
    to.keep_real(result, activation=activation_of(to.op, FullyConnectedInput.ACTIVATION))


def _rows(to: Emitter) -> str:
    dimensions, size = to.op.dimensions(FullyConnectedInput.INPUT), to.op.dimensions(FullyConnectedInput.WEIGHTS)[1]
    if len(dimensions) == 2 and dimensions[1] == size:
        return to.real(FullyConnectedInput.INPUT)
    rows = to.graph.add("Reshape", to.kept(FullyConnectedInput.INPUT), to.graph.integers([-1, size]))
    if to.op.main_type() in QUANTIZED:
        return to.graph.dequantize(rows, quantization_of(to.op.inputs[FullyConnectedInput.INPUT]))
    return rows


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
