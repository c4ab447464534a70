"""Element by element, by tables of what cpu_ref's kernel makes of every code, or of every pair of codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels import KERNELS
from nnhal.kernels.quantization import as_output
from nnhal.operations import OperationContext
from nnhal.types import Operand
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.machine.arithmetic.kernel import OperationCall, executing, shape_of

_CODES = 256
_FIRST, _SECOND = 0, 1


def codes_of(operand: Operand) -> Array:
    """Return all codes of an 8-bit type, in the order of their bytes."""
    element = ELEMENT_TYPES[operand.type]
    if element.itemsize != 1:
        raise ValueError(f"elements of {element}, expected 8 bits")
    return np.arange(_CODES, dtype=np.uint8).view(element)


def requantization_table(op: OperationContext, index: int) -> Array | None:
    """Return what an input's codes are in the output's quantisation, None if that is the same."""
    source, target = op.inputs[index], op.outputs[0]
    if (source.type, source.scale, source.zero_point) == (target.type, target.scale, target.zero_point):
        return None
    return as_output(executing(op, {index: codes_of(source)}), index)


class UnaryTable:
    """An operation of one input: activations, and changes of the quantisation."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.shape(_FIRST),)
        codes = codes_of(call.op.inputs[_FIRST])
        with np.errstate(all="ignore"):
            (self._table,) = KERNELS[call.op.type](executing(call.op, {_FIRST: codes}))

    def reads(self, output: Box) -> tuple[Box, ...]:
        """Return the same elements."""
        return (output,)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Look up."""
        return self._table[values[0].view(np.uint8)]


class PairTable:
    """An operation of two inputs that broadcast. One of them may be a constant."""

    def __init__(self, call: OperationCall) -> None:
        op = call.op
        self.inputs = tuple(call.shape(index) for index in call.activations)
        self._constants = {
            index: op.value(index).reshape(call.shape(index))
            for index in (_FIRST, _SECOND)
            if index not in call.activations
        }
        # A column and a row, which the kernel broadcasts to all pairs.
        column, row = codes_of(op.inputs[_FIRST])[:, np.newaxis], codes_of(op.inputs[_SECOND])[np.newaxis]
        with np.errstate(all="ignore"):
            (table,) = KERNELS[op.type](executing(op, {_FIRST: column, _SECOND: row}))
        self._table = table.reshape(-1)

    def reads(self, output: Box) -> tuple[Box, ...]:
        """Return the same elements, or the only one of an axis along which the input is broadcast."""
        return tuple(_broadcast(shape, output) for shape in self.inputs)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Look up pairs."""
        given = iter(values)
        first, second = (
            self._constant(index, output) if index in self._constants else next(given) for index in (_FIRST, _SECOND)
        )
        pairs = first.view(np.uint8).astype(np.uint16) << 8 | second.view(np.uint8)
        result: Array = self._table[pairs]
        return result

    def _constant(self, index: int, output: Box) -> Array:
        values = self._constants[index]
        part = values[tuple(slice(*interval) for interval in _broadcast(Shape(*values.shape), output))]
        return np.ascontiguousarray(part)


class FloatElements:
    """An operation between floats, element by element, as islands between 8-bit tensors have them."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = tuple(call.shape(index) for index in call.activations)
        self._op, self._activations = call.op, call.activations
        self._vectors = {
            index: operand.reshape(shape_of(operand.shape))
            for index in range(len(call.op.inputs))
            if index not in call.activations and (operand := call.op.value(index)).size > 1
        }

    def reads(self, output: Box) -> tuple[Box, ...]:
        """Return the same elements, or the only one of an axis along which the input is broadcast."""
        return tuple(_broadcast(shape, output) for shape in self.inputs)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """As cpu_ref computes it."""
        given = dict(zip(self._activations, values, strict=True))
        for index, vector in self._vectors.items():
            given[index] = vector[tuple(slice(*each) for each in _broadcast(Shape(*vector.shape), output))]
        with np.errstate(all="ignore"):
            (result,) = KERNELS[self._op.type](executing(self._op, given))
        return result


def _broadcast(shape: Shape, output: Box) -> Box:
    return Box(*(Interval(0, 1) if length == 1 else wanted for length, wanted in zip(shape, output, strict=True)))
