"""CONCATENATION, SPLIT, SLICE, STRIDED_SLICE, PAD and PAD_V2: elements move along the axes."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext, concatenation, pad, slicing, split, strided_slice
from nnhal.operations._shape import axis_of
from nnhal_cascade.geometry.access import AxisAccess
from nnhal_cascade.geometry.accesses import Everything, OneToOne, Shifted
from nnhal_cascade.geometry.box import Axis, Shape
from nnhal_cascade.graph.cascader_graph import PartKind
from nnhal_cascade.graph.matchers.match import (
    MAX_RANK,
    Match,
    Reading,
    as_shape,
    constant_operands,
    shape_of,
)


def match_concatenation(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match CONCATENATION: each input is a range of the output."""
    count = concatenation.axis_input(op)
    along = _axis(op.integer(count), len(op.dimensions(0)))
    readings, start = [], 0
    for position in range(count):
        given = shape_of(op, position)
        if not op.is_known(position):
            readings.append(_shifted(op, position, tuple(start if axis == along else 0 for axis in Axis), outputs[0]))
        start += given[along]
    return (Match(PartKind.COPY, tuple(readings), constants=constant_operands(op, range(count), outputs[0])),)


def match_split(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match SPLIT: each output is a range of the input."""
    rank = len(op.dimensions(split.Input.INPUT))
    along = _axis(axis_of(op, op.integer(split.Input.AXIS), rank), rank)
    starts = range(0, shape_of(op, split.Input.INPUT)[along], outputs[0][along])
    return tuple(
        Match(PartKind.COPY, (_shifted(op, split.Input.INPUT, tuple(-start if a == along else 0 for a in Axis), made),))
        for start, made in zip(starts, outputs, strict=True)
    )


def match_slice(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match SLICE: the output is a range of each axis of the input."""
    offsets = _of_image(tuple(-begin for begin in op.integers(slicing.Input.BEGIN)))
    return (Match(PartKind.COPY, (_shifted(op, slicing.Input.INPUT, offsets, outputs[0]),)),)


def match_strided_slice(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match STRIDED_SLICE with strides of 1. Dropped axes may turn the others into other axes: then all is read."""
    ranges = strided_slice.ranges(op)
    if any(each.step != 1 for each in ranges):
        strides = [each.step for each in ranges]
        raise ValueError(f"{op.place}: got strides {strides}, expected 1 on each axis")
    kept = as_shape(tuple(len(each) for each in ranges), op.place)
    if kept == outputs[0]:
        offsets = _of_image(tuple(-each.start for each in ranges))
        return (Match(PartKind.COPY, (_shifted(op, strided_slice.Input.INPUT, offsets, outputs[0]),)),)
    given = shape_of(op, strided_slice.Input.INPUT)
    return (Match(PartKind.COPY, (Reading(strided_slice.Input.INPUT, *map(Everything, given)),)),)


def match_pad(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match PAD and PAD_V2: the input is a range of each axis of the output."""
    offsets = _of_image(tuple(before for before, _ in pad.paddings_of(op)))
    return (Match(PartKind.COPY, (_shifted(op, pad.Input.INPUT, offsets, outputs[0]),)),)


def _axis(axis: int, rank: int) -> Axis:
    return Axis(axis + MAX_RANK - rank - 1)


def _of_image(offsets: Sequence[int]) -> tuple[int, ...]:
    """Return a value for each of rows, columns and channels; missing axes have 0."""
    return ((0,) * (MAX_RANK - len(offsets)) + tuple(offsets))[1:]


def _shifted(op: OperationContext, position: int, offsets: Sequence[int], output: Shape) -> Reading:
    """Return the reading of an input whose element at 0 is the output's element at ``offsets``."""
    accesses: list[AxisAccess] = [
        OneToOne(length) if length == made else Shifted(length, offset)
        for length, offset, made in zip(shape_of(op, position), offsets, output, strict=True)
    ]
    return Reading(position, *accesses)
