"""Operators that move booleans, for which the HAL has no operations: they move bytes of 1 and 0 instead."""

from __future__ import annotations

import numpy as np
from tflite import TensorType

from nnhal.types import Operand, OperandType, OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._broadcast import common_shape
from nnhal_frontends.tflite.ops._definition import Converter

_BYTE = OperandType.TENSOR_QUANT8_ASYMM
_PLAIN = {"scale": 1.0, "zero_point": 0}


def moving(converter: Converter, first: int = 0) -> Converter:
    """Return a converter that also takes booleans as inputs from ``first`` on, if all results are booleans."""

    def convert(b: OperatorBuilder) -> None:
        if all(b.target(output).code == TensorType.BOOL for output in range(len(b.operator.outputs))):
            _over_bytes(b, converter, first)
        else:
            converter(b)

    return convert


def _over_bytes(b: OperatorBuilder, converter: Converter, first: int) -> None:
    results = b.results()
    places = range(first, len(b.operator.inputs))
    inputs = {b.operator.inputs[i]: _bytes(b, i) for i in places if b.has(i) and b.source(i).code == TensorType.BOOL}
    outputs = {tensor: b.new(Operand(_BYTE, (), 1.0, 0)) for tensor in b.operator.outputs}
    with b.builder.standing_in({tensor: o for tensor, o in (inputs | outputs).items() if tensor is not None}):
        converter(b)
    zero = b.add_constant(_BYTE, np.zeros(1), **_PLAIN)
    for moved, result in zip(outputs.values(), results, strict=True):
        b.add(OperationType.NOT_EQUAL, [moved, zero], [result])


def _bytes(b: OperatorBuilder, index: int) -> int:
    """Return an input as bytes of 1 and 0."""
    values = b.constant(index)
    if values is not None:
        if not values.size:
            raise b.unsupported("an input without elements, which no constant is")
        return b.add_constant(_BYTE, np.atleast_1d(values), **_PLAIN)
    shape = common_shape(b, b.shape(index))
    return b.apply(
        OperationType.SELECT,
        [b.input(index), *(b.filled(_BYTE, shape, number, **_PLAIN) for number in (1, 0))],
        like=Operand(_BYTE, (), 1.0, 0),
    )
