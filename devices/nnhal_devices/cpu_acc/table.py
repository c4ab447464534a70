"""The table of cpu_acc: for each operation how it is lowered, and what it takes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from nnhal.operations.convolution import (
    TransposeConv2dImplicit,
    window_of_conv_2d,
    window_of_depthwise_conv_2d,
    window_of_grouped_conv_2d,
)
from nnhal.operations.joining import SlicingInput, StridedSliceInput
from nnhal.operations.movement import (
    BatchToSpaceInput,
    MirrorPadInput,
    PadInput,
    ReverseInput,
    SpaceToBatchInput,
    TileInput,
    TransposeInput,
)
from nnhal.operations.operand_types import B8, F16, F32, I32, Q8A, Q8AS, Q8C, Q8S
from nnhal.operations.reduction import MeanInput, ReduceInput
from nnhal.operations.shape import ReshapeInput, SqueezeInput
from nnhal.support.rules import Check, SupportRule, anything
from nnhal.types import OperandType, OperationType
from nnhal_devices.cpu_acc import conditions
from nnhal_devices.cpu_acc.lowering import (
    convolution,
    elementwise,
    joining,
    matrix,
    movement,
    normalization,
    pooling,
    reduction,
    resize,
)
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_FLOATS = frozenset({F32, F16})
_QUANT8 = frozenset({Q8A, Q8AS})
_MAIN = _FLOATS | _QUANT8
_MOVABLE = _MAIN | {I32}
# Float16 is computed in float32, which is more precise. If the last bit decides between two answers, the answer may
# differ.
_DISCRETE = frozenset({F32, I32}) | _QUANT8


class LoweredOperation(NamedTuple):
    """The treatment of an operation by cpu_acc."""

    lower: Callable[[Emitter], None]
    """Adds the operation's ONNX nodes to a graph."""
    rule: SupportRule


_TRUTH = frozenset({B8})


def _row(
    lower: Callable[[Emitter], None],
    types: frozenset[OperandType] = _MAIN,
    constants: tuple[int, ...] = (),
    check: Check = anything,
    main: int = 0,
) -> LoweredOperation:
    return LoweredOperation(lower, SupportRule(types, constants, check, main=main))


TABLE: Mapping[OperationType, LoweredOperation] = {
    OperationType.ABS: _row(elementwise.unary, _FLOATS | {I32}),
    OperationType.ADD: _row(elementwise.arithmetic, _MOVABLE),
    OperationType.ARGMAX: _row(reduction.arg_extremes, _DISCRETE),
    OperationType.ARGMIN: _row(reduction.arg_extremes, _DISCRETE),
    OperationType.AVERAGE_POOL_2D: _row(pooling.average_pool, check=conditions.pooled),
    OperationType.BATCH_MATMUL: _row(matrix.batch_matmul, _FLOATS | {I32, Q8AS}),
    OperationType.BATCH_TO_SPACE_ND: _row(
        movement.batch_to_space_nd, constants=(BatchToSpaceInput.BLOCK_SIZES,), check=conditions.reshaped
    ),
    OperationType.CAST: _row(elementwise.cast, _MOVABLE | {B8}, check=conditions.converted),
    OperationType.CHANNEL_SHUFFLE: _row(movement.channel_shuffle, check=conditions.reshaped),
    OperationType.CONCATENATION: _row(joining.concatenation),
    OperationType.CONV_2D: _row(convolution.conv_2d, check=conditions.windowed(window_of_conv_2d)),
    OperationType.DEPTHWISE_CONV_2D: _row(
        convolution.depthwise_conv_2d, check=conditions.windowed(window_of_depthwise_conv_2d)
    ),
    OperationType.DEPTH_TO_SPACE: _row(movement.depth_to_space, check=conditions.reshaped),
    OperationType.DEQUANTIZE: _row(elementwise.requantize, _QUANT8 | {Q8S, Q8C}),
    OperationType.DIV: _row(elementwise.arithmetic, _FLOATS),
    OperationType.ELU: _row(elementwise.elu, _FLOATS),
    OperationType.EQUAL: _row(elementwise.pairwise, _DISCRETE | {B8}),
    OperationType.EXP: _row(elementwise.unary, _FLOATS),
    OperationType.EXPAND_DIMS: _row(movement.expand_dims, _MOVABLE),
    OperationType.FLOOR: _row(elementwise.unary, frozenset({F32})),
    OperationType.FULLY_CONNECTED: _row(matrix.fully_connected, check=conditions.with_known_weights),
    OperationType.GATHER: _row(joining.gather, _MOVABLE),
    OperationType.GREATER: _row(elementwise.pairwise, _DISCRETE),
    OperationType.GREATER_EQUAL: _row(elementwise.pairwise, _DISCRETE),
    OperationType.GROUPED_CONV_2D: _row(
        convolution.grouped_conv_2d, check=conditions.windowed(window_of_grouped_conv_2d)
    ),
    OperationType.HARD_SWISH: _row(elementwise.unary),
    OperationType.INSTANCE_NORMALIZATION: _row(
        normalization.instance_normalization, _FLOATS, check=conditions.normalized
    ),
    OperationType.L2_NORMALIZATION: _row(normalization.l2_normalization),
    OperationType.L2_POOL_2D: _row(pooling.l2_pool, _FLOATS, check=conditions.pooled),
    OperationType.LESS: _row(elementwise.pairwise, _DISCRETE),
    OperationType.LESS_EQUAL: _row(elementwise.pairwise, _DISCRETE),
    OperationType.LOCAL_RESPONSE_NORMALIZATION: _row(
        normalization.local_response_normalization, _FLOATS, check=conditions.over_neighbours
    ),
    OperationType.LOG: _row(elementwise.unary, _FLOATS),
    OperationType.LOGICAL_AND: _row(elementwise.pairwise, _TRUTH),
    OperationType.LOGICAL_NOT: _row(elementwise.unary, _TRUTH),
    OperationType.LOGICAL_OR: _row(elementwise.pairwise, _TRUTH),
    OperationType.LOGISTIC: _row(elementwise.unary),
    OperationType.LOG_SOFTMAX: _row(normalization.log_softmax, _FLOATS),
    OperationType.MAXIMUM: _row(elementwise.pairwise, _MOVABLE),
    OperationType.MAX_POOL_2D: _row(pooling.max_pool, check=conditions.pooled),
    OperationType.MEAN: _row(reduction.mean_of, constants=(MeanInput.AXES,)),
    OperationType.MINIMUM: _row(elementwise.pairwise, _MOVABLE),
    OperationType.MIRROR_PAD: _row(movement.mirror_pad, _MOVABLE, (MirrorPadInput.PADDINGS,), conditions.mirrored),
    OperationType.MUL: _row(elementwise.arithmetic, _MOVABLE),
    OperationType.NEG: _row(elementwise.unary, _FLOATS | {I32}),
    OperationType.NOT_EQUAL: _row(elementwise.pairwise, _DISCRETE | {B8}),
    OperationType.PACK: _row(joining.pack, _MOVABLE, main=1),
    OperationType.PAD: _row(movement.pad, constants=(PadInput.PADDINGS,)),
    OperationType.PAD_V2: _row(movement.pad, constants=(PadInput.PADDINGS,)),
    OperationType.POW: _row(elementwise.pairwise, _FLOATS),
    OperationType.PRELU: _row(elementwise.prelu, check=conditions.with_slope),
    OperationType.QUANTIZE: _row(elementwise.requantize, _FLOATS),
    OperationType.REDUCE_ALL: _row(reduction.extremes, _TRUTH, (ReduceInput.AXES,)),
    OperationType.REDUCE_ANY: _row(reduction.extremes, _TRUTH, (ReduceInput.AXES,)),
    OperationType.REDUCE_MAX: _row(reduction.extremes, _MAIN, (ReduceInput.AXES,)),
    OperationType.REDUCE_MIN: _row(reduction.extremes, _MAIN, (ReduceInput.AXES,)),
    OperationType.REDUCE_PROD: _row(reduction.sums, _FLOATS, (ReduceInput.AXES,)),
    OperationType.REDUCE_SUM: _row(reduction.sums, _FLOATS, (ReduceInput.AXES,)),
    OperationType.RELU: _row(elementwise.clamp),
    OperationType.RELU1: _row(elementwise.clamp),
    OperationType.RELU6: _row(elementwise.clamp),
    OperationType.RESHAPE: _row(movement.reshape, _MOVABLE, (ReshapeInput.SHAPE,), conditions.with_shape),
    OperationType.RESIZE_BILINEAR: _row(resize.resize_bilinear, check=conditions.on_images),
    OperationType.RESIZE_NEAREST_NEIGHBOR: _row(resize.resize_nearest_neighbor, check=conditions.on_images),
    OperationType.REVERSE: _row(joining.reverse, _MOVABLE, (ReverseInput.AXIS,)),
    OperationType.RSQRT: _row(elementwise.rsqrt, _FLOATS),
    OperationType.SELECT: _row(elementwise.select, _MOVABLE, main=1),
    OperationType.SIN: _row(elementwise.unary, _FLOATS),
    OperationType.SLICE: _row(joining.slice_box, _MOVABLE, (SlicingInput.BEGIN, SlicingInput.SIZE), conditions.sliced),
    OperationType.SOFTMAX: _row(normalization.softmax),
    OperationType.SPACE_TO_BATCH_ND: _row(
        movement.space_to_batch_nd,
        constants=(SpaceToBatchInput.BLOCK_SIZES, SpaceToBatchInput.PADDINGS),
        check=conditions.reshaped,
    ),
    OperationType.SPACE_TO_DEPTH: _row(movement.space_to_depth, check=conditions.reshaped),
    OperationType.SPLIT: _row(joining.split, _MOVABLE),
    OperationType.SQRT: _row(elementwise.unary, _FLOATS),
    OperationType.SQUEEZE: _row(movement.squeeze, constants=(SqueezeInput.AXES,)),
    OperationType.STRIDED_SLICE: _row(
        joining.strided,
        constants=(StridedSliceInput.BEGIN, StridedSliceInput.END, StridedSliceInput.STRIDES),
        check=conditions.sliced_in_strides,
    ),
    OperationType.SUB: _row(elementwise.arithmetic, _MOVABLE),
    OperationType.TANH: _row(elementwise.unary),
    OperationType.TILE: _row(joining.tile, _MOVABLE, (TileInput.MULTIPLES,), conditions.tiled),
    OperationType.TRANSPOSE: _row(movement.transpose, constants=(TransposeInput.PERMUTATION,)),
    OperationType.TRANSPOSE_CONV_2D: _row(
        convolution.transpose_conv_2d,
        constants=(TransposeConv2dImplicit.OUTPUT_SHAPE,),
        check=conditions.on_images,
    ),
}
"""A row for each operation of the HAL that is lowered. IF and RUN have ways of their own."""
