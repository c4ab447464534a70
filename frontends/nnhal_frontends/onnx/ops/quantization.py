"""QuantizeLinear and DequantizeLinear that stay because no operation takes the integers."""

from __future__ import annotations

from nnhal.types import OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter

_NO_PARAMETERS = "a scale or zero point that is computed at run time, or one for each block"


def quantize(b: NodeBuilder) -> None:
    """QUANTIZE of floats, or a change of scale for integers."""
    if b.node.outputs[0] not in b.graph.quantization:
        raise b.node.unsupported(_NO_PARAMETERS, "constant parameters, one pair for the tensor")
    if b.quantization(0) is None:
        b.finish(OperationType.QUANTIZE, [b.input(0)])
    else:
        b.finish_rescaled(b.input(0))


def dequantize(b: NodeBuilder) -> None:
    if b.quantization(0) is None:
        raise b.node.unsupported(_NO_PARAMETERS, "constant parameters, one pair for the tensor")
    b.finish(OperationType.DEQUANTIZE, [b.input(0)])


QUANTIZE_LINEAR = Converter(quantize)
DEQUANTIZE_LINEAR = Converter(dequantize)
