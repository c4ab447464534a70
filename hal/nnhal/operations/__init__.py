"""The operations of the NN HAL: signature, validation and output dimensions of each; no arithmetic.

One table from type to definition; the modules behind it are one for each operation or family. IF and WHILE are part of
model validation, since they are about subgraphs.
"""

from __future__ import annotations

from nnhal.operations import (
    binary,
    concatenation,
    conv_2d,
    depthwise_conv_2d,
    dequantize,
    fully_connected,
    logistic,
    mean,
    pad,
    pooling,
    quantize,
    relu,
    reshape,
    softmax,
    tanh,
)
from nnhal.operations._context import OperationContext, Signature, UnknownYet, channel_quant, type_name
from nnhal.operations._definition import OperationDefinition
from nnhal.types import OperationType

__all__ = [
    "DEFINITIONS",
    "OperationContext",
    "OperationDefinition",
    "Signature",
    "UnknownYet",
    "channel_quant",
    "type_name",
]

DEFINITIONS: dict[OperationType, OperationDefinition] = {
    definition.type: definition
    for definition in (
        binary.ADD,
        binary.DIV,
        binary.MUL,
        binary.SUB,
        concatenation.CONCATENATION,
        conv_2d.CONV_2D,
        depthwise_conv_2d.DEPTHWISE_CONV_2D,
        dequantize.DEQUANTIZE,
        fully_connected.FULLY_CONNECTED,
        logistic.LOGISTIC,
        mean.MEAN,
        pad.PAD,
        pad.PAD_V2,
        pooling.AVERAGE_POOL_2D,
        pooling.L2_POOL_2D,
        pooling.MAX_POOL_2D,
        quantize.QUANTIZE,
        relu.RELU,
        relu.RELU1,
        relu.RELU6,
        reshape.RESHAPE,
        softmax.SOFTMAX,
        tanh.TANH,
    )
}
"""Every operation that nnhal defines."""
