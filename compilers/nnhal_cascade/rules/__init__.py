"""The conditions under which ethos_u supports each operation, and modules of the families."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.joining import PackInput, SlicingInput, StridedSliceInput, axis_input, strided_ranges
from nnhal.operations.movement import DepthSpaceInput, MirrorPadInput, PadInput, ReverseInput, TileInput, TransposeInput
from nnhal.operations.shape import ReshapeInput, SqueezeInput
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import NpuRule, channels_last
from nnhal.types import OperationType
from nnhal_cascade.rules import elementwise, images, windows

__all__ = ["RULES"]

_PAD = NpuRule((PadInput.PADDINGS,))
_STRIDED = (StridedSliceInput.BEGIN, StridedSliceInput.END, StridedSliceInput.STRIDES)


def _parts(op: OperationContext) -> Sequence[int]:
    return range(axis_input(op))


def _packed(op: OperationContext) -> Sequence[int]:
    return range(PackInput.FIRST, len(op.inputs))


def _strided_slice(op: OperationContext) -> Support:
    strides = [indices.step for indices in strided_ranges(op)]
    if all(stride > 0 for stride in strides):
        return SUPPORTED
    return Unsupported("STRIDE", f"strides of {strides}", "at least 1 on each axis", "reverse the axis by REVERSE")


def _blocks(op: OperationContext) -> Support:
    return channels_last(op.boolean(DepthSpaceInput.LAYOUT))


_BLOCKS = NpuRule(check=_blocks)

RULES: dict[OperationType, NpuRule] = {
    OperationType.ADD: elementwise.ARITHMETIC,
    OperationType.AVERAGE_POOL_2D: windows.AVERAGE_POOL_2D,
    OperationType.BATCH_MATMUL: elementwise.BATCH_MATMUL,
    OperationType.CONCATENATION: NpuRule(tensors=_parts),
    OperationType.CONV_2D: windows.CONV_2D,
    OperationType.DEPTHWISE_CONV_2D: windows.DEPTHWISE_CONV_2D,
    OperationType.DEPTH_TO_SPACE: _BLOCKS,
    OperationType.EXPAND_DIMS: NpuRule(),
    OperationType.FULLY_CONNECTED: windows.FULLY_CONNECTED,
    OperationType.HARD_SWISH: NpuRule(),
    OperationType.LOGISTIC: NpuRule(),
    OperationType.MAXIMUM: elementwise.EXTREMUM,
    OperationType.MAX_POOL_2D: windows.MAX_POOL_2D,
    OperationType.MEAN: windows.MEAN,
    OperationType.MINIMUM: elementwise.EXTREMUM,
    OperationType.MIRROR_PAD: NpuRule((MirrorPadInput.PADDINGS,)),
    OperationType.MUL: elementwise.ARITHMETIC,
    OperationType.PACK: NpuRule(tensors=_packed),
    OperationType.PAD: _PAD,
    OperationType.PAD_V2: _PAD,
    OperationType.PRELU: elementwise.PRELU,
    OperationType.REDUCE_MAX: windows.EXTREMUM,
    OperationType.REDUCE_MIN: windows.EXTREMUM,
    OperationType.RELU: NpuRule(),
    OperationType.RELU1: NpuRule(),
    OperationType.RELU6: NpuRule(),
    OperationType.RESHAPE: NpuRule((ReshapeInput.SHAPE,)),
    OperationType.RESIZE_BILINEAR: images.BILINEAR,
    OperationType.RESIZE_NEAREST_NEIGHBOR: images.NEAREST,
    OperationType.REVERSE: NpuRule((ReverseInput.AXIS,)),
    OperationType.RSQRT: NpuRule(),
    OperationType.SLICE: NpuRule((SlicingInput.BEGIN, SlicingInput.SIZE)),
    OperationType.SOFTMAX: elementwise.SOFTMAX,
    OperationType.SPACE_TO_DEPTH: _BLOCKS,
    OperationType.SPLIT: NpuRule(),
    OperationType.SQUEEZE: NpuRule((SqueezeInput.AXES,)),
    OperationType.STRIDED_SLICE: NpuRule(_STRIDED, _strided_slice),
    OperationType.SUB: elementwise.ARITHMETIC,
    OperationType.TANH: NpuRule(),
    OperationType.TILE: NpuRule((TileInput.MULTIPLES,)),
    OperationType.TRANSPOSE: NpuRule((TransposeInput.PERMUTATION,)),
    OperationType.TRANSPOSE_CONV_2D: windows.TRANSPOSE_CONV_2D,
}
