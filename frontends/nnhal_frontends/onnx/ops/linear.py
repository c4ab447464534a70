"""Gemm and MatMul as FULLY_CONNECTED, or as BATCH_MATMUL if both factors are computed at run time."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.types import FusedActivation, OperationType
from nnhal.types.layout import describe
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.ops._weights import bias_of, filter_of, real_constant, takes_weights
from nnhal_frontends.onnx.qdq import QuantizedForm
from nnhal_frontends.weights import WeightsOperand

_NCHW = True


def gemm(b: NodeBuilder) -> None:
    """alpha * A * B + beta * C. If C is not a bias, it is added afterwards."""
    beta = b.attribute("beta", 1.0)
    rows = b.input(0)
    if b.attribute("transA", 0):
        rows = b.apply(OperationType.TRANSPOSE, [rows, b.vector([1, 0])])
    weights, units = _gemm_weights(b)
    added = None if b.constant(2) is None else real_constant(b, 2)
    if not b.has(2):
        _finish(b, rows, weights, bias_of(b, None, units, weights))
    elif added is not None and _is_bias(added, units):
        bias = np.broadcast_to(added.reshape(-1) * beta, units)
        _finish(b, rows, weights, bias_of(b, bias, units, weights))
    elif beta == 1:
        product = [rows, weights.operand, bias_of(b, None, units, weights), b.activation(FusedActivation.NONE)]
        b.finish(OperationType.ADD, [b.apply(OperationType.FULLY_CONNECTED, product), b.input(2), b.activation()])
    else:
        raise b.node.unsupported(f"beta {beta} on a C that is not a constant bias", "beta 1")


def matmul(b: NodeBuilder) -> None:
    """A product of matrices. A third input, which ONNX does not have, is a bias that has been fused into the node."""
    values = b.constant(1)
    if values is None or values.ndim != 2:
        if any(0 in b.shape(index)[:-2] for index in range(2)):
            _require_equal_batches(b)
        inputs = [b.input(0), b.input(1), b.boolean(False), b.boolean(False)]
        b.finish_activated(OperationType.BATCH_MATMUL, inputs)
        return
    weights = _weights(b, values.T)
    rows = b.input(0)
    if len(b.shape(0)) == 1:
        rows = b.reshape(rows, (1, len(values)))
    _finish(b, rows, weights, bias_of(b, real_constant(b, 2), values.shape[1], weights))


def _require_equal_batches(b: NodeBuilder) -> None:
    """Raise UnsupportedNode unless both batches have the same names: a length that turns out to be 1 is repeated."""
    first, second = (sizes and sizes[:-2] for sizes in (b.graph.sizes(b.node.inputs[index]) for index in range(2)))
    if first is None or first != second:
        raise b.node.unsupported(
            f"batches {describe(b.shape(0)[:-2])} and {describe(b.shape(1)[:-2])}", "batches that are surely equal"
        )


def _gemm_weights(b: NodeBuilder) -> tuple[WeightsOperand, int]:
    """Return the weights and their number of units."""
    alpha, as_stored = b.attribute("alpha", 1.0), b.attribute("transB", 0)
    values = b.constant(1)
    if values is not None:
        scaled = values if alpha == 1 else values * values.dtype.type(alpha)
        return _weights(b, scaled if as_stored else scaled.T), scaled.shape[0 if as_stored else 1]
    units = b.output_shape()[1]
    if alpha != 1 or not units:
        raise b.node.unsupported(f"a B that is computed at run time, with alpha {alpha}", "alpha 1 and a known width")
    operand = b.input(1)
    if not as_stored:
        operand = b.apply(OperationType.TRANSPOSE, [operand, b.vector([1, 0])])
    return WeightsOperand(operand), units


def _weights(b: NodeBuilder, values: Array) -> WeightsOperand:
    """Add weights [units, size], or a convolution's filter [units, 1, 1, size] if each unit has its own scale."""
    quantization = b.quantization(1)
    if quantization is not None and quantization.axis is not None:
        values = values[:, None, None]
    return filter_of(b, values, channel_dim=0)


def _finish(b: NodeBuilder, rows: int, weights: WeightsOperand, bias: int) -> None:
    """Finish with FULLY_CONNECTED, whose result has rank 2, and a reshape to any other rank."""
    if weights.per_channel:
        _convolve(b, rows, weights, bias)
        return
    inputs = [rows, weights.operand, bias, b.activation()]
    if len(b.output_shape()) == 2:
        b.finish(OperationType.FULLY_CONNECTED, inputs)
    else:
        b.finish_reshape(b.apply(OperationType.FULLY_CONNECTED, inputs, like=b.result()))


def _convolve(b: NodeBuilder, rows: int, weights: WeightsOperand, bias: int) -> None:
    """Finish with a convolution over images of one pixel: FULLY_CONNECTED does not take a scale for each unit."""
    pixels = b.reshape(rows, (0, b.operand(weights.operand).dimensions[-1], 1, 1))
    no_padding, stride = [b.int32(0)] * 4, [b.int32(1)] * 2
    inputs = [pixels, weights.operand, bias, *no_padding, *stride, b.activation(), b.boolean(_NCHW)]
    b.finish_reshape(b.apply(OperationType.CONV_2D, inputs, like=b.result()))


def _is_bias(values: Array, units: int) -> bool:
    return values.size == 1 or (values.size == units and values.shape[-1] == units)


def _quantized_gemm(form: QuantizedForm) -> bool:
    attributes, weights, added = form.node.attributes, form.constant(1), form.constant(2)
    channel_axis = 0 if attributes.get("transB", 0) else 1
    if attributes.get("alpha", 1.0) != 1 or attributes.get("transA", 0) or weights is None:
        return False
    return takes_weights(form, channel_axis) and (added is None or _is_bias(added, weights.shape[channel_axis]))


def _quantized_matmul(form: QuantizedForm) -> bool:
    weights = form.constant(1)
    return weights is not None and weights.ndim == 2 and takes_weights(form, channel_axis=1)


GEMM = Converter(gemm, _quantized_gemm)
MATMUL = Converter(matmul, _quantized_matmul)
