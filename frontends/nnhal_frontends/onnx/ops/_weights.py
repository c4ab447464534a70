"""Make filters, weights and biases in the HAL's layout and quantisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.types import ChannelQuant, OperandType
from nnhal_frontends.onnx.builder import OPERAND_TYPES, NodeBuilder
from nnhal_frontends.onnx.graph import OnnxQuantization
from nnhal_frontends.onnx.qdq import QuantizedForm, real_values
from nnhal_frontends.weights import WeightsOperand

_UINT8, _INT8 = np.dtype(np.uint8), np.dtype(np.int8)
_INT32 = np.iinfo(np.int32)


def takes_weights(form: QuantizedForm, channel_axis: int) -> bool:
    """Return whether the three inputs of a convolution or fully connected layer have a quantised form.

    ``channel_axis`` is the weights' axis of output channels.
    """
    weights = form.inputs[1]
    if not form.quant8(0) or weights is None or form.constant(1) is None:
        return False
    if weights.element_type not in (_UINT8, _INT8):
        return False
    if weights.axis is not None and (weights.axis != channel_axis or any(_symmetric(weights).zero_points)):
        return False
    return not form.node.input(2) or form.constant(2) is not None


def filter_of(b: NodeBuilder, values: Array, channel_dim: int) -> WeightsOperand:
    """Add weights that are in the HAL's layout already. ``channel_dim`` is the axis of output channels."""
    quantization, source = b.quantization(1), b.quantization(0)
    if source is None or quantization is None:
        return WeightsOperand(b.array(values.astype(b.element_type(), copy=False)))
    if quantization.axis is None:
        values, zero_point = _shifted(values, quantization.zero_point, source.element_type)
        code = OPERAND_TYPES[source.element_type]
        operand = b.add_constant(code, values, scale=quantization.scale, zero_point=zero_point)
        return WeightsOperand(operand, quantization.scales)
    values, _ = _shifted(values, 0, _INT8)
    channels = ChannelQuant(quantization.scales, channel_dim)
    operand = b.add_constant(OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, values, channels=channels)
    return WeightsOperand(operand, quantization.scales)


def bias_of(b: NodeBuilder, values: Array | None, channels: int, weights: WeightsOperand) -> int:
    """Add a bias of real ``values``, zeros by default, in the precision and scale that the weights need."""
    reals = np.zeros(channels) if values is None else values
    source = b.quantization(0)
    if source is None or not weights.scales:
        return b.array(reals.astype(b.element_type()))
    scales = np.array(weights.scales) * source.scale
    integers = np.clip(np.rint(reals / scales), _INT32.min, _INT32.max)
    scale = 0.0 if weights.per_channel else float(np.float32(scales[0]))
    return b.add_constant(OperandType.TENSOR_INT32, integers, scale=scale)


def real_constant(b: NodeBuilder, index: int) -> Array | None:
    """Return the reals of an input; None if it is left out. Raises UnsupportedNode if it is not constant."""
    if not b.has(index):
        return None
    values, quantization = required_constant(b, index, "bias"), b.quantization(index)
    return values if quantization is None else real_values(values, quantization)


def required_constant(b: NodeBuilder, index: int, what: str) -> Array:
    """Return the array of an input. Raises UnsupportedNode if it is not constant."""
    values = b.constant(index)
    if values is None:
        raise b.node.unsupported(f"its {what} '{b.node.input(index)}' is computed at run time", f"constant {what}")
    return values


def transposed(values: Array, order: Sequence[int]) -> Array:
    """Return values with their axes in another order, contiguous."""
    return np.ascontiguousarray(values.transpose(order))


def _symmetric(quantization: OnnxQuantization) -> OnnxQuantization:
    """Return per-channel quantisation with the zero points shifted to int8."""
    shift = 128 if quantization.element_type == _UINT8 else 0
    zero_points = tuple(zero_point - shift for zero_point in quantization.zero_points)
    return OnnxQuantization(_INT8, quantization.scales, zero_points, quantization.axis)


def _shifted(values: Array, zero_point: int, element_type: np.dtype[np.generic]) -> tuple[Array, int]:
    """Return 8-bit values and their zero point in another signedness."""
    if values.dtype == element_type:
        return values, zero_point
    shift = 128 if element_type == _UINT8 else -128
    return (values.astype(np.int16) + shift).astype(element_type), zero_point + shift
