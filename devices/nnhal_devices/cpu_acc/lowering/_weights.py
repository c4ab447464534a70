"""Filters and biases in ONNX's layout, as reals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.operations import channel_quant
from nnhal.types import OperandType
from nnhal_devices.cpu_acc.elements import QUANTIZED, SIGN, ElementQuantization, quantization_of
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


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
    if to.graph.is_constant(index):
        tensor, zero_point = _signed(to, position, permutation)
    else:
        tensor = to.kept(position) if identity else to.graph.add("Transpose", to.kept(position), perm=permutation)
        zero_point = quantization.zero_point
    axis = None if quantization.axis is None else list(permutation).index(quantization.axis)
    return to.graph.dequantize(tensor, ElementQuantization(quantization.scale, zero_point, axis))


def bias_of(to: Emitter, position: int, input_position: int, filter_position: int) -> str:
    """A bias. A quantised one has the scale of the products that it is added to."""
    if to.op.inputs[position].type != OperandType.TENSOR_INT32:
        return to.real(position)
    weights = to.op.inputs[filter_position]
    per_channel = weights.type == OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    scales = channel_quant(weights).scales if per_channel else weights.scale
    scale = np.float32(to.op.inputs[input_position].scale) * np.array(scales, np.float32)
    zero_point = np.zeros(scale.shape, np.int32)
    return to.graph.dequantize(to.kept(position), ElementQuantization(scale, zero_point, 0 if per_channel else None))


def _signed(to: Emitter, position: int, permutation: Sequence[int]) -> tuple[str, np.ndarray]:
    """A constant filter as signed bytes: kernels for unsigned activations and signed weights are the fastest."""
    operand, values = to.op.inputs[position], np.transpose(to.op.value(position), permutation)
    if operand.type == OperandType.TENSOR_QUANT8_ASYMM:
        zero_point = np.array(operand.zero_point - int(SIGN), np.int8)
        return to.graph.constant((values ^ SIGN).view(np.int8)), zero_point
    zero_points = quantization_of(operand).zero_point
    if operand.type == OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
        zero_points = np.array(operand.zero_point, np.int8)
    return to.graph.constant(values), zero_points
