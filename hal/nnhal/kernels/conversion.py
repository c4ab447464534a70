"""Conversions between types of elements."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array, Floats
from nnhal.kernels.quantization import from_real, to_real
from nnhal.operations import OperationContext, channel_quant
from nnhal.operations.conversion import CastInput, DequantizeInput, QuantizeInput
from nnhal.operations.operand_types import Q8C
from nnhal.types.layout import ELEMENT_TYPES


def cast(op: OperationContext) -> tuple[Array, ...]:
    """The stored numbers in another type. Integers drop the fraction and saturate; nan becomes 0."""
    values, element = op.value(CastInput.INPUT), ELEMENT_TYPES[op.outputs[0].type]
    if not np.issubdtype(element, np.integer):
        return (values.astype(element),)
    info = np.iinfo(element)  # type: ignore[type-var]
    return (np.clip(np.nan_to_num(values.astype(np.float64)), info.min, info.max).astype(element),)


def quantize(op: OperationContext) -> tuple[Array, ...]:
    """x / scale + zero point, rounded and clamped."""
    return (from_real(op, to_real(op, QuantizeInput.INPUT)),)


def dequantize(op: OperationContext) -> tuple[Array, ...]:
    """(q - zero point) * scale; per-channel values have a scale for each index of one axis."""
    reals = _per_channel(op) if op.main_type() == Q8C else to_real(op, DequantizeInput.INPUT)
    return (from_real(op, reals),)


def _per_channel(op: OperationContext) -> Floats:
    values, quantization = op.value(DequantizeInput.INPUT), channel_quant(op.inputs[DequantizeInput.INPUT])
    shape = [1] * values.ndim
    shape[quantization.channel_dim] = -1
    reals: Floats = values * np.array(quantization.scales, np.float32).reshape(shape)
    return reals
