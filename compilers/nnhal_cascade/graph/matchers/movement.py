"""Elements move along the axes, or to other ones.

CONCATENATION, PACK, SPLIT, SLICE, STRIDED_SLICE, PAD, PAD_V2, MIRROR_PAD, REVERSE, TILE, TRANSPOSE, DEPTH_TO_SPACE and
SPACE_TO_DEPTH.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.dimensions import axis_of
from nnhal.operations.joining import PackInput, SlicingInput, SplitInput, StridedSliceInput, axis_input, strided_ranges
from nnhal.operations.movement import (
    DepthSpaceInput,
    PadInput,
    TileInput,
    axis_of_reversal,
    paddings_of_mirror_pad,
    paddings_of_pad,
    permutation,
)
from nnhal_cascade.geometry.accesses import AxisAccess, Everything, OneToOne, Shifted, Windowed
from nnhal_cascade.geometry.box import Axis, Shape
from nnhal_cascade.graph.cascader_graph import PartKind
from nnhal_cascade.graph.matchers.match import (
    MAX_RANK,
    Match,
    Reading,
    as_shape,
    constant_operands,
    require_channels_last,
    shape_of,
)


def match_concatenation(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match CONCATENATION: each input is a range of the output."""
    count = axis_input(op)
    along = _axis(op.integer(count), len(op.dimensions(0)))
    readings, start = [], 0
    for position in range(count):
        given = shape_of(op, position)
        if not op.is_known(position):
            readings.append(_shifted(op, position, tuple(start if axis == along else 0 for axis in Axis), outputs[0]))
        start += given[along]
    return (Match(PartKind.COPY, tuple(readings), constants=constant_operands(op, range(count), outputs[0])),)


def match_pack(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match PACK: each input is one element of the new axis. Behind other axes than 1, each is read as a whole."""
    given, axis = op.dimensions(PackInput.FIRST), op.integer(PackInput.AXIS)
    along, is_first = _axis(axis, len(given) + 1), set(given[:axis]) <= {1}
    positions = range(PackInput.FIRST, len(op.inputs))
    readings = [
        _shifted(op, position, tuple(number if each == along else 0 for each in Axis), outputs[0])
        if is_first
        else Reading(position, *map(Everything, shape_of(op, position)))
        for number, position in enumerate(positions)
        if not op.is_known(position)
    ]
    return (Match(PartKind.COPY, tuple(readings), constants=constant_operands(op, positions, outputs[0])),)


def match_split(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match SPLIT: each output is a range of the input."""
    rank = len(op.dimensions(SplitInput.INPUT))
    along = _axis(axis_of(op, op.integer(SplitInput.AXIS), rank), rank)
    starts = range(0, shape_of(op, SplitInput.INPUT)[along], outputs[0][along])
    return tuple(
        Match(
            PartKind.COPY,
            (_shifted(op, SplitInput.INPUT, tuple(-start if a == along else 0 for a in Axis), made),),
        )
        for start, made in zip(starts, outputs, strict=True)
    )


def match_slice(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match SLICE: the output is a range of each axis of the input."""
    offsets = _of_image(tuple(-begin for begin in op.integers(SlicingInput.BEGIN)))
    return (Match(PartKind.COPY, (_shifted(op, SlicingInput.INPUT, offsets, outputs[0]),)),)


def match_strided_slice(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match STRIDED_SLICE of ascending elements. Dropped axes may turn the others into other axes: then all is read."""
    ranges = strided_ranges(op)
    steps = [each.step for each in ranges]
    if min(steps) < 1:
        raise ValueError(f"{op.place}: got strides {steps}, expected at least 1 on each axis")
    kept = as_shape(tuple(len(each) for each in ranges), op.place)
    if kept == outputs[0]:
        offsets = _of_image(tuple(-each.start for each in ranges))
        reading = _shifted(op, StridedSliceInput.INPUT, offsets, outputs[0], _of_image(steps))
        return (Match(PartKind.COPY, (reading,)),)
    given = shape_of(op, StridedSliceInput.INPUT)
    return (Match(PartKind.COPY, (Reading(StridedSliceInput.INPUT, *map(Everything, given)),)),)


def match_pad(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match PAD and PAD_V2: the input is a range of each axis of the output."""
    offsets = _of_image(tuple(before for before, _ in paddings_of_pad(op)))
    return (Match(PartKind.COPY, (_shifted(op, PadInput.INPUT, offsets, outputs[0]),)),)


def match_mirror_pad(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match MIRROR_PAD: an axis that is padded is read as a whole."""
    del outputs
    padded = [any(pair) for pair in paddings_of_mirror_pad(op)]
    return _moved(op, [axis for axis, others in enumerate(padded) if others])


def match_reverse(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match REVERSE: its axis is read as a whole."""
    del outputs
    return _moved(op, [axis_of_reversal(op)])


def match_tile(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match TILE: an axis that is repeated is read as a whole."""
    del outputs
    multiples = op.integers(TileInput.MULTIPLES)
    return _moved(op, [axis for axis, multiple in enumerate(multiples) if multiple != 1])


def match_transpose(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match TRANSPOSE: an axis that changes its place is read as a whole."""
    del outputs
    return _moved(op, [axis for axis, source in enumerate(permutation(op)) if axis != source])


def match_depth_to_space(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match DEPTH_TO_SPACE: a block of pixels is the channels of one."""
    del outputs
    require_channels_last(op, op.boolean(DepthSpaceInput.LAYOUT))
    given, block = shape_of(op, DepthSpaceInput.INPUT), op.integer(DepthSpaceInput.BLOCK_SIZE)
    rows, columns = (Windowed(length, upscale=block) for length in (given.rows, given.columns))
    return (Match(PartKind.COPY, (Reading(DepthSpaceInput.INPUT, rows, columns, Everything(given.channels)),)),)


def match_space_to_depth(op: OperationContext, outputs: Sequence[Shape]) -> tuple[Match, ...]:
    """Match SPACE_TO_DEPTH: the channels of a pixel are a block of them."""
    del outputs
    require_channels_last(op, op.boolean(DepthSpaceInput.LAYOUT))
    given, block = shape_of(op, DepthSpaceInput.INPUT), op.integer(DepthSpaceInput.BLOCK_SIZE)
    rows, columns = (Windowed(length, block, block) for length in (given.rows, given.columns))
    return (Match(PartKind.COPY, (Reading(DepthSpaceInput.INPUT, rows, columns, Everything(given.channels)),)),)


def _moved(op: OperationContext, axes: Sequence[int]) -> tuple[Match, ...]:
    """Match an operation whose first input is read as a whole along some axes, by element along the others."""
    given, rank = shape_of(op, 0), len(op.dimensions(0))
    whole = {axis + MAX_RANK - rank - 1 for axis in axes}
    accesses = (Everything(given[axis]) if axis in whole else OneToOne(given[axis]) for axis in Axis)
    return (Match(PartKind.COPY, (Reading(0, *accesses),)),)


def _axis(axis: int, rank: int) -> Axis:
    return Axis(axis + MAX_RANK - rank - 1)


def _of_image(values: Sequence[int]) -> tuple[int, ...]:
    """Return a value for each of rows, columns and channels; missing axes have 0."""
    return ((0,) * (MAX_RANK - len(values)) + tuple(values))[1:]


def _shifted(
    op: OperationContext, position: int, offsets: Sequence[int], output: Shape, strides: Sequence[int] = (0, 0, 0)
) -> Reading:
    """Return the reading of an input whose element at 0 is the output's element at ``offsets``, one of every stride."""
    axes = zip(shape_of(op, position), offsets, strides, output, strict=True)
    return Reading(position, *(_along(*each) for each in axes))


def _along(length: int, offset: int, stride: int, made: int) -> AxisAccess:
    if stride > 1:
        return Windowed(length, stride=stride, before=offset)
    return OneToOne(length) if length == made else Shifted(length, offset)
