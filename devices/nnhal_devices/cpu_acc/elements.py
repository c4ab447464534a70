"""The element types of the graph's tensors, and what the elements of an operand stand for.

Float16 is computed in float32, since ONNX Runtime has few float16 kernels for a CPU. Signed 8-bit values become
unsigned by adding 128 to value and zero point, since its fast integer kernels take unsigned activations. Booleans are
ONNX's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import number_of
from nnhal.operations import channel_quant
from nnhal.types import FusedActivation, Model, Operand, OperandType
from nnhal.types.layout import ELEMENT_TYPES, is_extension

SIGN = np.uint8(0x80)
"""Adding 128 to an 8-bit value is flipping this bit."""

KEPT_TYPES: dict[int, np.dtype[np.generic]] = {
    OperandType.TENSOR_FLOAT32: np.dtype(np.float32),
    OperandType.TENSOR_FLOAT16: np.dtype(np.float32),
    OperandType.TENSOR_INT32: np.dtype(np.int32),
    OperandType.TENSOR_BOOL8: np.dtype(np.bool_),
    OperandType.TENSOR_QUANT8_ASYMM: np.dtype(np.uint8),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: np.dtype(np.uint8),
    OperandType.TENSOR_QUANT8_SYMM: np.dtype(np.int8),
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL: np.dtype(np.int8),
}
"""The element type that the graph computes with."""

MEMORY_TYPES = {
    code: np.dtype(np.uint8) if KEPT_TYPES.get(code) == np.uint8 else element for code, element in ELEMENT_TYPES.items()
}
"""The element type as which the graph reads and writes the caller's memory, also of inputs that nothing reads."""


def memory_type(model: Model, code: int, is_message: bool = False) -> int:
    """The ONNX element type as which the graph reads and writes an operand of any type.

    ``is_message`` says that the graph is that of a message, which has signed bytes as they are.
    """
    if is_message and code == OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
        return int(TensorProto.INT8)
    number = number_of(model, code) if is_extension(code) else None
    return helper.np_dtype_to_tensor_dtype(MEMORY_TYPES[code]) if number is None else number


QUANTIZED = frozenset(
    {
        OperandType.TENSOR_QUANT8_ASYMM,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
        OperandType.TENSOR_QUANT8_SYMM,
        OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
    }
)


@dataclass(frozen=True, slots=True)
class ElementQuantization:
    """real = (kept - zero_point) * scale, with one scale and zero point for each index of ``axis``, if it is given."""

    scale: Array
    zero_point: Array
    axis: int | None = None


def quantization_of(operand: Operand) -> ElementQuantization:
    """The quantisation of a quantised operand's kept elements."""
    if operand.type == OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        channels = channel_quant(operand)
        scales = np.array(channels.scales, np.float32)
        return ElementQuantization(scales, np.zeros(len(scales), np.int8), channels.channel_dim)
    kept = KEPT_TYPES[operand.type]
    return ElementQuantization(np.array(operand.scale, np.float32), np.array(kept_zero_point(operand), kept))


def kept_zero_point(operand: Operand) -> int:
    signed = operand.type == OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    return operand.zero_point + int(SIGN) if signed else operand.zero_point


def keep(operand: Operand, values: Array) -> Array:
    """A constant as the graph keeps it; it is copied only if its elements change."""
    if operand.type == OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
        flipped: Array = values.view(np.uint8) ^ SIGN
        return flipped
    if operand.type == OperandType.TENSOR_BOOL8:
        return values.astype(np.bool_)
    return values.astype(KEPT_TYPES[operand.type], copy=False)


def activation_range(activation: FusedActivation) -> tuple[float | None, float | None]:
    """The least and the largest real that a fused activation lets pass."""
    if activation == FusedActivation.RELU:
        return 0.0, None
    if activation == FusedActivation.RELU1:
        return -1.0, 1.0
    if activation == FusedActivation.RELU6:
        return 0.0, 6.0
    return None, None


def kept_range(operand: Operand, activation: FusedActivation) -> tuple[int, int]:
    """The least and the largest kept value of a quant8 operand that a fused activation lets pass."""
    zero_point = kept_zero_point(operand)
    low, high = (
        None if real is None else zero_point + floor(real / operand.scale + 0.5)
        for real in activation_range(activation)
    )
    return max(0, low or 0), min(255, 255 if high is None else high)
