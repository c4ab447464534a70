"""Make filters, weights and biases in the HAL's quantisation."""

from __future__ import annotations

import numpy as np

from nnhal.types import OperandType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.weights import WeightsOperand


def weights_of(b: OperatorBuilder, main: int, index: int) -> WeightsOperand:
    """Return the weights that are multiplied with input ``main``; they are dequantised if that has floats."""
    found = b.quantization(index)
    if found is None or not b.is_quantized(b.input(main)):
        return WeightsOperand(b.reals(index))
    return WeightsOperand(b.input(index), found.scales)


def bias_of(b: OperatorBuilder, main: int, index: int, weights: WeightsOperand, channels: int) -> int:
    """Return the bias, zeros if it is left out, in the accumulator's scale, as the HAL requires."""
    source = b.operand(b.input(main))
    if not weights.scales:
        return b.input(index) if b.has(index) else b.filled(OperandType(source.type), (channels,))
    scale = 0.0 if weights.per_channel else float(np.float32(source.scale) * np.float32(weights.scales[0]))
    if not b.has(index):
        return b.filled(OperandType.TENSOR_INT32, (channels,), scale=scale)
    return b.add_constant(OperandType.TENSOR_INT32, np.array(b.integers(index, "bias")), scale=scale)
