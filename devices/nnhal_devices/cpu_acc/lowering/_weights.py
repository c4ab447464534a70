"""Filters and biases in ONNX's layout, as reals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import channel_quant
from nnhal.types import OperandType
from nnhal_devices.cpu_acc.elements import QUANTIZED, SIGN, ElementQuantization, quantization_of
from nnhal_devices.cpu_acc.lowering.emitter import Emitter


def filter_of(to: Emitter, position: int, permutation: Sequence[int]) -> str:
    """A filter with permuted axes."""
    operand, index = to.op.inputs[position], to.inputs[position]
    identity = tuple(permutation) == tuple(range(len(permutation)))
    if operand.type not in QUANTIZED:
        if to.graph.is_constant(index):
            values = to.op.value(position).astype(np.float32, copy=False)
            return to.graph.constant(np.transpose(values, permutation))
        return to.kept(position) if identity else to.graph.add("Transpose", to.kept(position), perm=permutation)
    quantization = quantization_of(operand)
    axis = None if quantization.axis is None else list(permutation).index(quantization.axis)
    if to.graph.is_constant(index):
        tensor, zero_point = _signed(to, position, np.transpose(to.op.value(position), permutation))
    else:
        tensor = to.kept(position) if identity else to.graph.add("Transpose", to.kept(position), perm=permutation)
        zero_point = quantization.zero_point
    return to.graph.dequantize(tensor, ElementQuantization(quantization.scale, zero_point, axis))


def quantized_filter(to: Emitter, position: int, values: Array, times: int) -> str:
    """Other values of a constant quantised filter, whose output channels come first and are repeated as a whole."""
    quantization = quantization_of(to.op.inputs[position])
    tensor, zero_point = _signed(to, position, values)
    if quantization.axis is None:
        return to.graph.dequantize(tensor, ElementQuantization(quantization.scale, zero_point))
    scales, zero_points = np.tile(quantization.scale, times), np.tile(zero_point, times)
    return to.graph.dequantize(tensor, ElementQuantization(scales, zero_points, 0))


def bias_of(to: Emitter, position: int, input_position: int, filter_position: int) -> str:
    """A bias. A quantised one has the scale of the products that it is added to."""
    if to.op.inputs[position].type != OperandType.TENSOR_INT32:
        return to.real(position)
    return to.graph.dequantize(to.kept(position), _bias_quantization(to, input_position, filter_position, 1))


def quantized_bias(to: Emitter, position: int, input_position: int, filter_position: int, times: int) -> str:
    """A constant quantised bias, repeated as a whole."""
    values = to.graph.constant(np.tile(to.op.value(position), times))
    return to.graph.dequantize(values, _bias_quantization(to, input_position, filter_position, times))


def _bias_quantization(to: Emitter, input_position: int, filter_position: int, times: int) -> ElementQuantization:
    weights = to.op.inputs[filter_position]
    per_channel = weights.type == OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    scales = np.tile(channel_quant(weights).scales, times) if per_channel else weights.scale
    scale = np.float32(to.op.inputs[input_position].scale) * np.array(scales, np.float32)
    return ElementQuantization(scale, np.zeros(scale.shape, np.int32), 0 if per_channel else None)


def _signed(to: Emitter, position: int, values: Array) -> tuple[str, Array]:
    """A constant filter as signed bytes: kernels for unsigned activations and signed weights are the fastest."""
    operand = to.op.inputs[position]
    if operand.type == OperandType.TENSOR_QUANT8_ASYMM:
        zero_point = np.array(operand.zero_point - int(SIGN), np.int8)
        return to.graph.constant((values ^ SIGN).view(np.int8)), zero_point
    zero_points = quantization_of(operand).zero_point
    if operand.type == OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
        zero_points = np.array(operand.zero_point, np.int8)
    return to.graph.constant(values), zero_points
