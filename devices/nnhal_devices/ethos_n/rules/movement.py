"""Operations that move bytes: joined, split and transposed in whole granules of channels, or images made larger."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.dimensions import axis_of
from nnhal.operations.joining import SplitInput, axis_input, prepare_split
from nnhal.operations.movement import DepthSpaceInput, TransposeInput
from nnhal.operations.resize import ResizeInput, prepare_resize
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import channels_last, npu_rule
from nnhal.support.rules import first_objection
from nnhal_devices.ethos_n.limits import GRANULE
from nnhal_devices.ethos_n.rules._shared import rescaled

_PAD = f"pad the channels to a multiple of {GRANULE} with filters of zeros"


def _parts(op: OperationContext) -> Sequence[int]:
    return range(axis_input(op))


def _concatenation(op: OperationContext) -> Support:
    parts = _parts(op)
    tensors = [op.dimensions(index) for index in parts]
    lengths = [dimensions[-1] for dimensions in tensors]
    along_channels = op.integer(axis_input(op)) == len(tensors[0]) - 1
    return first_objection((_granules(lengths, along_channels), rescaled(op, *parts)))


def _split(op: OperationContext) -> Support:
    rank = len(op.dimensions(SplitInput.INPUT))
    along_channels = axis_of(op, op.integer(SplitInput.AXIS), rank) == rank - 1
    lengths = [dimensions[-1] for dimensions in prepare_split(op)]
    return _granules(lengths, along_channels)


def _granules(lengths: Sequence[int], along_channels: bool) -> Support:
    if not along_channels or len(lengths) == 1 or all(length % GRANULE == 0 for length in lengths):
        return SUPPORTED
    odd = next(length for length in lengths if length % GRANULE)
    return Unsupported("SHAPE", f"a part of {odd} channels", f"multiples of {GRANULE} along the channels", _PAD)


CONCATENATION = npu_rule(check=_concatenation, tensors=_parts)
SPLIT = npu_rule(check=_split)
TRANSPOSE = npu_rule((TransposeInput.PERMUTATION,))

_FACTOR = 2


def _depth_to_space(op: OperationContext) -> Support:
    return first_objection((channels_last(op.boolean(DepthSpaceInput.LAYOUT)), _block(op)))


def _block(op: OperationContext) -> Support:
    block = op.integer(DepthSpaceInput.BLOCK_SIZE)
    if block == _FACTOR:
        return SUPPORTED
    hint = "use two blocks of 2 for one of 4, and reorder the channels before them"
    return Unsupported("KERNEL", f"a block of {block}", str(_FACTOR), hint)


def _resize(op: OperationContext) -> Support:
    return first_objection((channels_last(op.boolean(ResizeInput.LAYOUT)), _sampling(op), _factor(op)))


def _sampling(op: OperationContext) -> Support:
    for index in (ResizeInput.ALIGN_CORNERS, ResizeInput.HALF_PIXEL_CENTERS):
        if op.boolean(index):
            hint = "export the network with both flags off, or use TRANSPOSE_CONV_2D"
            return Unsupported("KERNEL", f"{index.name.lower()} = true", "false", hint)
    return SUPPORTED


def _factor(op: OperationContext) -> Support:
    given, made = op.dimensions(ResizeInput.INPUT)[1:3], prepare_resize(op)[0][1:3]
    if made == tuple(_FACTOR * length for length in given):
        return SUPPORTED
    got = f"{given[0]} x {given[1]} resized to {made[0]} x {made[1]}"
    hint = "resize by 2, several times for 4 or 8"
    return Unsupported("SHAPE", got, "twice the height and twice the width", hint)


DEPTH_TO_SPACE = npu_rule(check=_depth_to_space)
RESIZE = npu_rule(check=_resize)
