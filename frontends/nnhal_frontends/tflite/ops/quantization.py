"""QUANTIZE, DEQUANTIZE, CAST and DENSIFY."""

from __future__ import annotations

from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_frontends.tflite.builder import FLOAT, OperatorBuilder
from nnhal_frontends.tflite.ops._broadcast import common_shape
from nnhal_frontends.tflite.tensors import singles


def quantize(b: OperatorBuilder) -> None:
    """QUANTIZE of floats. A change of scale is an ADD of zero, a change of type a DEQUANTIZE and QUANTIZE."""
    source = b.input(0)
    if not b.is_quantized(source):
        b.finish(OperationType.QUANTIZE, [source])
    elif b.operand(source).type == b.operand(b.result()).type:
        b.finish(OperationType.ADD, b.with_zero(source))
    else:
        b.finish(OperationType.QUANTIZE, [b.apply(OperationType.DEQUANTIZE, [source], like=FLOAT)])


def dequantize(b: OperatorBuilder) -> None:
    """DEQUANTIZE, CAST for half floats, or no operation for a constant."""
    values = b.real_constant(0)
    if values is not None:
        b.fold(singles(values))
    elif b.is_quantized(b.input(0)):
        b.finish(OperationType.DEQUANTIZE, [b.input(0)])
    else:
        b.finish(OperationType.CAST, [b.input(0)])


def cast(b: OperatorBuilder) -> None:
    """CAST of numbers, SELECT of 1 or 0 for booleans, and NOT_EQUAL to 0 for a boolean result."""
    source, result = b.operand(b.input(0)), b.operand(b.result())
    from_bool, to_bool = (operand.type == OperandType.TENSOR_BOOL8 for operand in (source, result))
    if from_bool and not to_bool:
        shape = common_shape(b, b.shape(0))
        b.finish(OperationType.SELECT, [b.input(0), *(_stored(b, result, shape, number) for number in (1, 0))])
    elif to_bool and not from_bool:
        b.finish(OperationType.NOT_EQUAL, [b.input(0), _stored(b, source, (1,), 0)])
    else:
        b.finish(OperationType.CAST, [b.input(0)])


def densify(b: OperatorBuilder) -> None:
    """Give the elements of a sparse constant, which are made dense on import."""
    b.fold(b.required(0, "input"))


def _stored(b: OperatorBuilder, like: Operand, shape: Dimensions, number: int) -> int:
    """Add a constant of the type and scale of an operand, with ``number`` as its stored value."""
    return b.filled(OperandType(like.type), shape, number, scale=like.scale, zero_point=like.zero_point)
