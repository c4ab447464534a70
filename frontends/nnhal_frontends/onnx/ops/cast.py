"""Cast and CastLike: the same numbers in another element type."""

from __future__ import annotations

import numpy as np

from nnhal.types import Operand, OperandType, OperationType
from nnhal_frontends.onnx.builder import OPERAND_TYPES, NodeBuilder
from nnhal_frontends.onnx.ops._broadcast import filled
from nnhal_frontends.onnx.ops._definition import Converter

_BYTES = (np.dtype(np.uint8), np.dtype(np.int8))


def convert(b: NodeBuilder) -> None:
    """CAST between floats and 32-bit integers; NOT_EQUAL, SELECT or DEQUANTIZE for types that it does not take."""
    given = b.element_type()
    wanted = b.graph.tensors[b.node.outputs[0]].element_type
    if wanted not in OPERAND_TYPES or given not in OPERAND_TYPES:
        raise b.node.unsupported(f"{given} to {wanted}", "float16, float32, int32, int64, bool")
    if b.quantization(0) is not None:
        raise b.node.unsupported(f"the integers of a quantised {given} are read as numbers", "plain integers")
    if OPERAND_TYPES[given] == OPERAND_TYPES[wanted]:
        b.finish(OperationType.CAST, [b.input(0)])
    elif wanted == np.bool_:
        b.finish(OperationType.NOT_EQUAL, [b.input(0), filled(b, 0)])
    elif given == np.bool_:
        _from_bools(b, wanted)
    elif wanted in _BYTES:
        raise b.node.unsupported(f"{given} to {wanted}, for which the HAL saturates", "float16, float32, int32, bool")
    elif given == np.int8:
        _from_signed_bytes(b, wanted)
    else:
        b.finish(OperationType.CAST, [b.input(0)])


def _from_bools(b: NodeBuilder, wanted: np.dtype[np.generic]) -> None:
    """Give 1 for true and 0 for false."""
    shape = b.shape(0) or (1,)
    if 0 in shape:
        raise b.node.unsupported(f"bool to {wanted} on axes of unknown length", "fixed shapes of the model's inputs")
    for _ in range(2):
        b.reserve(shape, wanted)
    b.finish(OperationType.SELECT, [b.input(0), *(b.array(np.full(shape, value, wanted)) for value in (1, 0))])


def _from_signed_bytes(b: NodeBuilder, wanted: np.dtype[np.generic]) -> None:
    """With a scale of 1, DEQUANTIZE gives the numbers themselves."""
    if wanted.kind == "f":
        b.finish(OperationType.DEQUANTIZE, [b.input(0)])
        return
    floats = b.apply(OperationType.DEQUANTIZE, [b.input(0)], like=Operand(OperandType.TENSOR_FLOAT32))
    b.finish(OperationType.CAST, [floats])


CAST = Converter(convert)
