"""Gemm and MatMul as FULLY_CONNECTED, or BATCH_MATMUL where both sides are computed at run time."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.types import FusedActivation, OperationType
from nnhal_service.frontends.onnx.builder import NodeBuilder
from nnhal_service.frontends.onnx.ops._definition import Converter
from nnhal_service.frontends.onnx.ops._weights import Weights, bias_of, filter_of, real_constant, takes_weights
from nnhal_service.frontends.onnx.qdq import QuantizedForm

_NCHW = True


def gemm(b: NodeBuilder) -> None:
    """alpha * A * B + beta * C. A C that is no bias is added afterwards."""
    alpha, beta = b.attribute("alpha", 1.0), b.attribute("beta", 1.0)
    rows = b.input(0)
    if b.attribute("transA", 0):
        rows = b.step(OperationType.TRANSPOSE, [rows, b.vector([1, 0])])
    units = b.output_shape()[1]
    values = b.constant(1)
    if values is None:
        weights = _run_time_weights(b, alpha, b.attribute("transB", 0))
    else:
        units = values.shape[0 if b.attribute("transB", 0) else 1]
        scaled = values if alpha == 1 else values * values.dtype.type(alpha)
        weights = filter_of(b, scaled if b.attribute("transB", 0) else np.ascontiguousarray(scaled.T), 0)
    added = real_constant(b, 2) if b.constant(2) is not None else None
    if not b.has(2) or (added is not None and _is_bias(added, units)):
        bias = None if added is None else np.broadcast_to(added.reshape(-1) * beta, units)
        _finish(b, rows, weights, units, bias)
        return
    if beta != 1:
        raise b.node.unsupported(f"beta {beta} on a C that is no constant bias", "beta 1")
    product = b.step(
        OperationType.FULLY_CONNECTED,
        [rows, weights.operand, bias_of(b, None, units, weights), b.activation(FusedActivation.NONE)],
    )
    b.finish(OperationType.ADD, [product, b.input(2), b.activation()])


def matmul(b: NodeBuilder) -> None:
    """A product of matrices. A third input, which ONNX has not, is a bias that has been merged into the node."""
    values = b.constant(1)
    if values is None or values.ndim != 2:
        b.finish(OperationType.BATCH_MATMUL, [b.input(0), b.input(1), b.boolean(False), b.boolean(False)])
        if b.node.activation:
            raise b.node.unsupported("an activation on a product of two run-time values")
        return
    weights = filter_of(b, np.ascontiguousarray(values.T), 0)
    rows = b.input(0)
    if len(b.shape(0)) == 1:
        rows = b.reshape(rows, (1, len(values)))
    _finish(b, rows, weights, values.shape[1], real_constant(b, 2))


def _run_time_weights(b: NodeBuilder, alpha: float, as_stored: bool) -> Weights:
    if alpha != 1:
        raise b.node.unsupported(f"alpha {alpha} on a B that is computed at run time", "alpha 1")
    if as_stored:
        return Weights(b.input(1))
    return Weights(b.step(OperationType.TRANSPOSE, [b.input(1), b.vector([1, 0])]))


def _finish(b: NodeBuilder, rows: int, weights: Weights, units: int, bias: Array | None) -> None:
    """FULLY_CONNECTED gives rank 2: other ranks are made of it."""
    offset = bias_of(b, bias, units, weights)
    if weights.per_channel:
        _convolve(b, rows, weights, offset)
        return
    inputs = [rows, weights.operand, offset, b.activation()]
    if len(b.output_shape()) == 2:
        b.finish(OperationType.FULLY_CONNECTED, inputs)
    else:
        b.finish_reshape(b.step(OperationType.FULLY_CONNECTED, inputs, like=b.result()))


def _convolve(b: NodeBuilder, rows: int, weights: Weights, bias: int) -> None:
    """FULLY_CONNECTED has one scale for all weights; a convolution over images of one pixel has one for each unit."""
    units, size = b.operand(weights.operand).dimensions[0], b.operand(weights.operand).dimensions[-1]
    pixels = b.reshape(rows, (0, size, 1, 1))
    no_padding, stride = [b.int32(0)] * 4, [b.int32(1)] * 2
    inputs = [pixels, weights.operand, bias, *no_padding, *stride, b.activation(), b.boolean(_NCHW)]
    del units
    b.finish_reshape(b.step(OperationType.CONV_2D, inputs, like=b.result()))


def _is_bias(values: Array, units: int) -> bool:
    return values.size == 1 or (values.size == units and values.shape[-1] == units)


def _quantized_gemm(form: QuantizedForm) -> bool:
    attributes, offset = form.node.attributes, form.constant(2)
    if attributes.get("alpha", 1.0) != 1 or attributes.get("transA", 0):
        return False
    weights = form.constant(1)
    if not takes_weights(form, 0 if attributes.get("transB", 0) else 1) or weights is None:
        return False
    return offset is None or _is_bias(offset, weights.shape[0 if attributes.get("transB", 0) else 1])


def _quantized_matmul(form: QuantizedForm) -> bool:
    weights = form.constant(1)
    return weights is not None and weights.ndim == 2 and takes_weights(form, channel_axis=1)


GEMM = Converter(gemm, _quantized_gemm)
MATMUL = Converter(matmul, _quantized_matmul)
