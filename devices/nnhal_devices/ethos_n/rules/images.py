"""DEPTH_TO_SPACE and the RESIZE operations: images of twice the height and width."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.operations.movement import DepthSpaceInput
from nnhal.operations.resize import ResizeInput, prepare_resize
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import NpuRule, channels_last, first_objection

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


DEPTH_TO_SPACE = NpuRule(check=_depth_to_space)
RESIZE = NpuRule(check=_resize)
