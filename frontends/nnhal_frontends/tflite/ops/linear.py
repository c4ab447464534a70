"""FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from math import prod

from tflite import BatchMatMulOptions, FullyConnectedOptions, FullyConnectedOptionsWeightsFormat

from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._broadcast import common_shape, repeated
from nnhal_frontends.tflite.ops._weights import bias_of, weights_of
from nnhal_frontends.weights import WeightsOperand

INPUT = 0
WEIGHTS = 1
BIAS = 2
_VALID = 2
_RANKS = (2, 3, 4)


def fully_connected(b: OperatorBuilder) -> None:
    """FULLY_CONNECTED, which gives [batch, units], followed by a RESHAPE if the input's axes are to be kept."""
    options = b.options(FullyConnectedOptions)
    if options.WeightsFormat != FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise b.unsupported(f"weights of format {options.WeightsFormat}", "DEFAULT")
    units, size = _weights_shape(b)
    given = b.shape(INPUT)
    batch = prod(given) // size
    wanted: Dimensions = (*given[:-1], units) if options.KeepNumDims else (batch, units)
    activation = b.activation(options.FusedActivationFunction)
    found = b.quantization(WEIGHTS)
    if found is not None and found.per_channel and b.is_quantized(b.input(INPUT)):
        _convolve(b, (1, 1, batch, size), activation, wanted)
        return
    weights = weights_of(b, INPUT, WEIGHTS)
    rows = b.input(INPUT) if len(given) in _RANKS else b.reshape(b.input(INPUT), (batch, size))
    inputs = [rows, weights.operand, bias_of(b, INPUT, BIAS, weights, units), activation]
    if len(wanted) == 2:
        b.finish(OperationType.FULLY_CONNECTED, inputs)
    else:
        b.finish_reshape(b.apply(OperationType.FULLY_CONNECTED, inputs, like=b.result()), wanted)


def batch_matmul(b: OperatorBuilder) -> None:
    """BATCH_MATMUL, whose batches must be equal: they are repeated if TFLite broadcasts them."""
    options = b.options(BatchMatMulOptions)
    operands = [b.input(i) if b.is_quantized(b.input(1 - i)) else b.reals(i) for i in (0, 1)]
    shapes = [b.ranked(operand) for operand in operands]
    if shapes[0][:-2] != shapes[1][:-2]:
        batch = common_shape(b, *(shape[:-2] for shape in shapes))
        operands = [
            repeated(b, operand, (*batch, *shape[-2:])) for operand, shape in zip(operands, shapes, strict=True)
        ]
    flags = [b.boolean(options.AdjX), b.boolean(options.AdjY)]
    b.finish(OperationType.BATCH_MATMUL, [*operands, *flags])


def _weights_shape(b: OperatorBuilder) -> tuple[int, int]:
    """Return the shape of the weights, [units, size]. Raises UnsupportedNode unless both are known."""
    shape = b.source(WEIGHTS).initial_shape if b.constant(WEIGHTS) is not None else b.shape(WEIGHTS)
    if len(shape) != 2 or 0 in shape:
        raise b.unsupported(f"weights of shape {list(shape)}", "[units, size]")
    return shape[0], shape[1]


def _convolve(b: OperatorBuilder, pixels: Dimensions, activation: int, wanted: Dimensions) -> None:
    """Finish with a convolution over the pixels of an image: FULLY_CONNECTED does not take a scale for each unit."""
    values, channels = b.required(WEIGHTS, "weights"), b.channels(WEIGHTS)
    kernel = b.add_constant(
        OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        values[:, None, None],
        channels=channels,
        name=b.source(WEIGHTS).name,
    )
    bias = bias_of(b, INPUT, BIAS, WeightsOperand(kernel, channels.scales), len(values))
    window = [b.int32(_VALID), b.int32(1), b.int32(1), activation]
    inputs = [b.reshape(b.input(INPUT), pixels), kernel, bias, *window]
    b.finish_reshape(b.apply(OperationType.CONV_2D, inputs, like=b.result()), wanted)
