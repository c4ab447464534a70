"""Operations that move elements: CONCATENATION, PAD, RESHAPE, SLICE, SPLIT and STRIDED_SLICE."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import OperationContext
from nnhal.operations.dimensions import axis_of
from nnhal.operations.joining import SlicingInput, SplitInput, axis_input, prepare_slicing, strided_ranges
from nnhal.operations.movement import PadInput, paddings_of_pad
from nnhal.types import OperationType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.machine.arithmetic.kernel import NoStripesError, OperationCall
from nnhal_cascade.machine.arithmetic.tables import requantization_table

_INPUT = 0
_RANK = 3


class Same:
    """Change of dimensions that leaves the bytes as they are: RESHAPE, SQUEEZE and EXPAND_DIMS."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.output,)

    def reads(self, output: Box) -> tuple[Box, ...]:
        """Return the same elements, in the output's dimensions."""
        return (output,)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Nothing changes."""
        return values[0]


class Concatenation:
    """CONCATENATION. An input with another quantisation is requantised."""

    def __init__(self, call: OperationCall) -> None:
        op = call.op
        count = axis_input(op)
        axis = axis_of(op, op.integer(count), len(op.dimensions(_INPUT)))
        self._axis = axis + _RANK - len(op.dimensions(_INPUT))
        if self._axis < 0:
            raise NoStripesError("a concatenation along the batch, expected another axis")
        shapes = [call.shape(index) for index in range(count)]
        starts = np.cumsum([0] + [shape[self._axis] for shape in shapes]).tolist()
        self._places = [Interval(start, stop) for start, stop in pairwise(starts)]
        self._constants = {i: op.value(i).reshape(shapes[i]) for i in range(count) if i not in call.activations}
        self._tables = [requantization_table(op, index) for index in range(count)]
        self._element = ELEMENT_TYPES[op.outputs[0].type]
        self.inputs = tuple(shapes[index] for index in call.activations)

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The box's part of each input, which may be empty."""
        return tuple(
            self._from(place, output) for index, place in enumerate(self._places) if index not in self._constants
        )

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """The parts, one after the other."""
        result = np.empty(output.shape, self._element)
        given, wanted = iter(values), output[self._axis]
        for index, (place, table) in enumerate(zip(self._places, self._tables, strict=True)):
            if index in self._constants:
                part = self._constants[index][_slices(self._from(place, output))]
            else:
                part = next(given)
            if not part.size:
                continue
            start = max(place.start, wanted.start) - wanted.start
            where = [slice(None)] * _RANK
            where[self._axis] = slice(start, start + part.shape[self._axis])
            result[tuple(where)] = part if table is None else table[part.view(np.uint8)]
        return result

    def _from(self, place: Interval, output: Box) -> Box:
        parts, wanted = list(output), output[self._axis]
        start = min(max(wanted.start, place.start), place.stop)
        stop = max(start, min(wanted.stop, place.stop))
        parts[self._axis] = Interval(start - place.start, stop - place.start)
        return Box(*parts)


class Padding:
    """PAD and PAD_V2: a border of one value."""

    def __init__(self, call: OperationCall) -> None:
        op = call.op
        self.inputs = (call.shape(_INPUT),)
        paddings = paddings_of_pad(op)
        batch, *others = ((0, 0),) * (_RANK + 1 - len(paddings)) + paddings
        if any(batch):
            raise NoStripesError(f"the batch is padded by {batch}, expected no padding")
        self._before = [before for before, _ in others]
        given = op.type == OperationType.PAD_V2
        self._value = op.integer(PadInput.VALUE) if given else op.inputs[_INPUT].zero_point
        self._element = ELEMENT_TYPES[op.inputs[_INPUT].type]

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The part of the box that is no border."""
        return (
            Box(
                *(
                    Interval(min(max(wanted.start - before, 0), length), min(max(wanted.stop - before, 0), length))
                    for wanted, before, length in zip(output, self._before, self.inputs[0], strict=True)
                )
            ),
        )

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """The elements within their border."""
        result = np.full(output.shape, self._value, self._element)
        (box,) = self.reads(output)
        if 0 not in box.shape:
            starts = [s.start + before - o.start for s, before, o in zip(box, self._before, output, strict=True)]
            result[tuple(slice(s, s + n) for s, n in zip(starts, box.shape, strict=True))] = values[0]
        return result


class RangeSelection:
    """SLICE, SPLIT and STRIDED_SLICE: of each axis the elements of a range."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.shape(_INPUT),)
        ranges = _ranges(call)
        self._ranges = ((range(1),) * (4 - len(ranges)) + ranges)[1:]
        shape = Shape(*(len(each) for each in self._ranges))
        if shape != call.output or any(each.step < 1 for each in self._ranges):
            raise NoStripesError(f"a slice of {shape} as {call.output}, expected the same axes in their order")

    def reads(self, output: Box) -> tuple[Box, ...]:
        """From the first to the last selected element."""
        return (
            Box(
                *(
                    Interval(chosen[wanted.start], chosen[wanted.stop - 1] + 1) if wanted.length else Interval(0, 0)
                    for chosen, wanted in zip(self._ranges, output, strict=True)
                )
            ),
        )

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """The selected ones of them."""
        return values[0][tuple(slice(None, None, chosen.step) for chosen in self._ranges)]


def _ranges(call: OperationCall) -> tuple[range, ...]:
    op = call.op
    if op.type == OperationType.STRIDED_SLICE:
        return strided_ranges(op)
    if op.type == OperationType.SLICE:
        (sizes,) = prepare_slicing(op)
        begins = op.integers(SlicingInput.BEGIN)
        return tuple(range(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))
    return _split(op, call.position)


def _split(op: OperationContext, position: int) -> tuple[range, ...]:
    dimensions = op.dimensions(_INPUT)
    axis = axis_of(op, op.integer(SplitInput.AXIS), len(dimensions))
    size = dimensions[axis] // op.integer(SplitInput.NUM_SPLITS)
    chosen = [range(length) for length in dimensions]
    chosen[axis] = range(position * size, (position + 1) * size)
    return tuple(chosen)


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*interval) for interval in box)
