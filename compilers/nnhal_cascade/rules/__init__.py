"""The conditions under which ethos_u supports each operation, and modules of the families."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.joining import PackInput, SlicingInput, StridedSliceInput, axis_input, strided_ranges
from nnhal.operations.movement import DepthSpaceInput, MirrorPadInput, PadInput, ReverseInput, TileInput, TransposeInput
from nnhal.operations.shape import ReshapeInput, SqueezeInput
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import channels_last, npu_rule
from nnhal.support.rules import SupportRule
from nnhal.types import OperationType
from nnhal_cascade.rules import elementwise, images, windows

__all__ = ["RULES"]

_PAD = npu_rule((PadInput.PADDINGS,))
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


_BLOCKS = npu_rule(check=_blocks)

RULES: dict[OperationType, SupportRule] = {
    OperationType.ADD: elementwise.ARITHMETIC,
    OperationType.AVERAGE_POOL_2D: windows.AVERAGE_POOL_2D,
    OperationType.BATCH_MATMUL: elementwise.BATCH_MATMUL,
    OperationType.CONCATENATION: npu_rule(tensors=_parts),
    OperationType.CONV_2D: windows.CONV_2D,
    OperationType.DEPTHWISE_CONV_2D: windows.DEPTHWISE_CONV_2D,
    OperationType.DEPTH_TO_SPACE: _BLOCKS,
    OperationType.EXPAND_DIMS: npu_rule(),
    OperationType.FULLY_CONNECTED: windows.FULLY_CONNECTED,
    OperationType.HARD_SWISH: npu_rule(),
    OperationType.LOGISTIC: npu_rule(),
    OperationType.MAXIMUM: elementwise.EXTREMUM,
    OperationType.MAX_POOL_2D: windows.MAX_POOL_2D,
    OperationType.MEAN: windows.MEAN,
    OperationType.MINIMUM: elementwise.EXTREMUM,
    OperationType.MIRROR_PAD: npu_rule((MirrorPadInput.PADDINGS,)),
    OperationType.MUL: elementwise.ARITHMETIC,
    OperationType.PACK: npu_rule(tensors=_packed),
    OperationType.PAD: _PAD,
    OperationType.PAD_V2: _PAD,
    OperationType.PRELU: elementwise.PRELU,
    OperationType.REDUCE_MAX: windows.EXTREMUM,
    OperationType.REDUCE_MIN: windows.EXTREMUM,
    OperationType.RELU: npu_rule(),
    OperationType.RELU1: npu_rule(),
    OperationType.RELU6: npu_rule(),
    OperationType.RESHAPE: npu_rule((ReshapeInput.SHAPE,)),
    OperationType.RESIZE_BILINEAR: images.BILINEAR,
    OperationType.RESIZE_NEAREST_NEIGHBOR: images.NEAREST,
    OperationType.REVERSE: npu_rule((ReverseInput.AXIS,)),
    OperationType.RSQRT: npu_rule(),
    OperationType.SLICE: npu_rule((SlicingInput.BEGIN, SlicingInput.SIZE)),
    OperationType.SOFTMAX: elementwise.SOFTMAX,
    OperationType.SPACE_TO_DEPTH: _BLOCKS,
    OperationType.SPLIT: npu_rule(),
    OperationType.SQUEEZE: npu_rule((SqueezeInput.AXES,)),
    OperationType.STRIDED_SLICE: npu_rule(_STRIDED, _strided_slice),
    OperationType.SUB: elementwise.ARITHMETIC,
    OperationType.TANH: npu_rule(),
    OperationType.TILE: npu_rule((TileInput.MULTIPLES,)),
    OperationType.TRANSPOSE: npu_rule((TransposeInput.PERMUTATION,)),
    OperationType.TRANSPOSE_CONV_2D: windows.TRANSPOSE_CONV_2D,
}
