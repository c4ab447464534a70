"""The conditions under which cpu_acc supports each operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnhal.operations import OperationContext, type_name
from nnhal.operations.convolution import (
    TransposeConv2dImplicit,
    window_of_conv_2d,
    window_of_depthwise_conv_2d,
    window_of_grouped_conv_2d,
)
from nnhal.operations.dimensions import axis_of
from nnhal.operations.joining import SlicingInput, StridedSliceInput, prepare_slicing, ranges_of, strided_slices
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.operations.movement import (
    BatchToSpaceInput,
    MirrorPadInput,
    MirrorPadMode,
    PadInput,
    ReverseInput,
    SpaceToBatchInput,
    TileInput,
    TransposeInput,
)
from nnhal.operations.normalization import InstanceNormalizationInput, LocalResponseNormalizationInput
from nnhal.operations.operand_types import B8, F16, F32, I32, Q8A, Q8AS, Q8C, Q8S
from nnhal.operations.pooling import window_of
from nnhal.operations.reduction import MeanInput, ReduceInput
from nnhal.operations.shape import ReshapeInput, SqueezeInput
from nnhal.operations.windows import SAME, Window
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import describe

_FLOATS = frozenset({F32, F16})
_QUANT8 = frozenset({Q8A, Q8AS})
_MAIN = _FLOATS | _QUANT8
_MOVABLE = _MAIN | {I32}
# Float16 is computed in float32, which is more precise. If the last bit decides between two answers, the answer may
# differ.
_DISCRETE = frozenset({F32, I32}) | _QUANT8

_FAR = 1024
"""The largest radius over an unknown number of channels: ONNX Runtime takes memory for all of it."""

Check = Callable[[OperationContext], Support]


def _anything(_: OperationContext) -> Support:
    return SUPPORTED


@dataclass(frozen=True, slots=True)
class LoweringRule:
    """The conditions for one operation."""

    types: frozenset[OperandType] = _MAIN
    """The allowed types of input ``main``."""

    constants: tuple[int, ...] = ()
    """The tensors that must be constants. All scalars must be constants too."""

    check: Check = _anything
    """Checks the rest. It may raise UnknownYet."""

    main: int = 0

    @property
    def has_check(self) -> bool:
        """Return whether it has conditions besides types and constants."""
        return self.check is not _anything


def _reshaped(op: OperationContext) -> Support:
    """ONNX's Reshape finds one length out by itself."""
    dimensions = op.dimensions(0)
    if dimensions.count(0) > 1:
        return Unsupported("DYN_SHAPE", describe(dimensions), "at most one unknown length")
    return SUPPORTED


def _image(op: OperationContext) -> Support:
    dimensions = op.dimensions(0)
    if 0 in dimensions[1:]:
        return Unsupported("DYN_SHAPE", describe(dimensions), "images of known dimensions; their number may be unknown")
    return SUPPORTED


def _normalized(op: OperationContext) -> Support:
    epsilon = op.real(InstanceNormalizationInput.EPSILON)
    if not epsilon >= 0:
        return Unsupported("KERNEL", f"epsilon {epsilon}", "0 or more", "the root of a negative variance is undefined")
    return _image(op)


def _window(window_of: Callable[[OperationContext], Window]) -> Check:
    def check(op: OperationContext) -> Support:
        window, given = window_of(op), op.dimensions(0)
        height, width = (2, 3) if window.channels_first else (1, 2)
        if window.scheme == SAME and 0 in (given[height], given[width]):
            return Unsupported("DYN_SHAPE", describe(given), "a known height and width", "padding SAME depends on them")
        return SUPPORTED

    return check


def _pooling(op: OperationContext) -> Support:
    window = window_of(op)
    for axis in (window.height, window.width):
        if max(axis.before, axis.after) >= axis.size:
            got = f"paddings {axis.before} and {axis.after} of a window of {axis.size}"
            return Unsupported("KERNEL", got, "paddings that are smaller than the window")
    return _window(window_of)(op)


def _reshape(op: OperationContext) -> Support:
    shape = op.integers(ReshapeInput.SHAPE)
    if 0 in shape:
        return Unsupported("SHAPE", f"shape {list(shape)}", "lengths above 0, of which one may be -1")
    return SUPPORTED


def _weights(op: OperationContext) -> Support:
    op.known_dimensions(FullyConnectedInput.WEIGHTS)
    return SUPPORTED


def _slice(op: OperationContext) -> Support:
    """An unknown length of the result may be that of all the rest of an axis."""
    sizes, lengths = op.integers(SlicingInput.SIZE), op.dimensions(SlicingInput.INPUT)
    results = zip(sizes, lengths, prepare_slicing(op)[0], strict=True)
    return _elements(all(result or (size and not length) for size, length, result in results))


def _strided(op: OperationContext) -> Support:
    lengths = op.dimensions(StridedSliceInput.INPUT)
    kept = zip(ranges_of(strided_slices(op), lengths), lengths, strict=True)
    return _elements(all(indices or not length for indices, length in kept))


def _tile(op: OperationContext) -> Support:
    return _elements(0 not in op.integers(TileInput.MULTIPLES))


def _elements(some: bool) -> Support:
    return SUPPORTED if some else Unsupported("SHAPE", "a result of no elements", "at least one element")


def _mirror(op: OperationContext) -> Support:
    mode = MirrorPadMode(op.integer(MirrorPadInput.MODE))
    if mode is not MirrorPadMode.REFLECT:
        return Unsupported("KERNEL", f"mode {mode.name}", MirrorPadMode.REFLECT.name)
    return SUPPORTED


def _slope(op: OperationContext) -> Support:
    """ONNX broadcasts the slope to the values, but not the values to the slope: to an unknown length only a 1."""
    values, slope = op.ranked(0), op.known_dimensions(1)
    padded = (1,) * (len(values) - len(slope)) + slope
    if len(padded) != len(values) or any(b not in (1, a) for a, b in zip(values, padded, strict=True)):
        return Unsupported("SHAPE", f"alpha of {describe(slope)} on {describe(values)}", "alpha that broadcasts alone")
    return SUPPORTED


def _neighbours(op: OperationContext) -> Support:
    dimensions = op.ranked(0)
    rank = len(dimensions)
    axis = axis_of(op, op.integer(LocalResponseNormalizationInput.AXIS, default=-1), rank)
    if rank != 4 or axis not in (1, 3):
        return Unsupported("SHAPE", f"axis {axis} of {rank}", "axis 1 or 3 of 4")
    radius = op.integer(LocalResponseNormalizationInput.RADIUS)
    if not dimensions[axis] and radius > _FAR:
        return Unsupported("DYN_SHAPE", f"radius {radius} over an unknown number of channels", f"at most {_FAR}")
    alpha, beta = (
        op.real(index)
        for index in (
            LocalResponseNormalizationInput.ALPHA,
            LocalResponseNormalizationInput.BETA,
        )
    )
    if not (0 < alpha < float("inf") and 0 < beta < float("inf")):
        return Unsupported("KERNEL", f"alpha {alpha} and beta {beta}", "finite numbers above 0")
    return SUPPORTED


def _cast(op: OperationContext) -> Support:
    given, asked = op.main_type(), op.outputs[0].type
    if given != asked and (F16 in (given, asked) or (given, asked) == (F32, I32)):
        got = f"{type_name(given)} to {type_name(asked)}"
        return Unsupported("DTYPE", got, "no TENSOR_FLOAT16, and TENSOR_FLOAT32 to TENSOR_QUANT8_ASYMM only")
    return SUPPORTED


_COMPARED = LoweringRule(_DISCRETE)
_TRUTH = LoweringRule(frozenset({B8}))
_REDUCED_TRUTH = LoweringRule(frozenset({B8}), (ReduceInput.AXES,))
_REDUCED_FLOATS = LoweringRule(_FLOATS, (ReduceInput.AXES,))
_REDUCED = LoweringRule(_MAIN, (ReduceInput.AXES,))

RULES: dict[OperationType, LoweringRule] = {
    OperationType.ABS: LoweringRule(_FLOATS | {I32}),
    OperationType.ADD: LoweringRule(_MOVABLE),
    OperationType.ARGMAX: LoweringRule(_DISCRETE),
    OperationType.ARGMIN: LoweringRule(_DISCRETE),
    OperationType.AVERAGE_POOL_2D: LoweringRule(check=_pooling),
    OperationType.BATCH_MATMUL: LoweringRule(_FLOATS | {I32, Q8AS}),
    OperationType.BATCH_TO_SPACE_ND: LoweringRule(constants=(BatchToSpaceInput.BLOCK_SIZES,), check=_reshaped),
    OperationType.CAST: LoweringRule(_MOVABLE | {B8}, check=_cast),
    OperationType.CHANNEL_SHUFFLE: LoweringRule(check=_reshaped),
    OperationType.CONCATENATION: LoweringRule(),
    OperationType.CONV_2D: LoweringRule(check=_window(window_of_conv_2d)),
    OperationType.DEPTHWISE_CONV_2D: LoweringRule(check=_window(window_of_depthwise_conv_2d)),
    OperationType.DEPTH_TO_SPACE: LoweringRule(check=_reshaped),
    OperationType.DEQUANTIZE: LoweringRule(_QUANT8 | {Q8S, Q8C}),
    OperationType.DIV: LoweringRule(_FLOATS),
    OperationType.ELU: LoweringRule(_FLOATS),
    OperationType.EQUAL: LoweringRule(_DISCRETE | {B8}),
    OperationType.EXP: LoweringRule(_FLOATS),
    OperationType.EXPAND_DIMS: LoweringRule(_MOVABLE),
    OperationType.FLOOR: LoweringRule(frozenset({F32})),
    OperationType.FULLY_CONNECTED: LoweringRule(check=_weights),
    OperationType.GATHER: LoweringRule(_MOVABLE),
    OperationType.GREATER: _COMPARED,
    OperationType.GREATER_EQUAL: _COMPARED,
    OperationType.GROUPED_CONV_2D: LoweringRule(check=_window(window_of_grouped_conv_2d)),
    OperationType.HARD_SWISH: LoweringRule(),
    OperationType.INSTANCE_NORMALIZATION: LoweringRule(_FLOATS, check=_normalized),
    OperationType.L2_NORMALIZATION: LoweringRule(),
    OperationType.L2_POOL_2D: LoweringRule(_FLOATS, check=_pooling),
    OperationType.LESS: _COMPARED,
    OperationType.LESS_EQUAL: _COMPARED,
    OperationType.LOCAL_RESPONSE_NORMALIZATION: LoweringRule(_FLOATS, check=_neighbours),
    OperationType.LOG: LoweringRule(_FLOATS),
    OperationType.LOGICAL_AND: _TRUTH,
    OperationType.LOGICAL_NOT: _TRUTH,
    OperationType.LOGICAL_OR: _TRUTH,
    OperationType.LOGISTIC: LoweringRule(),
    OperationType.LOG_SOFTMAX: LoweringRule(_FLOATS),
    OperationType.MAXIMUM: LoweringRule(_MOVABLE),
    OperationType.MAX_POOL_2D: LoweringRule(check=_pooling),
    OperationType.MEAN: LoweringRule(constants=(MeanInput.AXES,)),
    OperationType.MINIMUM: LoweringRule(_MOVABLE),
    OperationType.MIRROR_PAD: LoweringRule(_MOVABLE, (MirrorPadInput.PADDINGS,), _mirror),
    OperationType.MUL: LoweringRule(_MOVABLE),
    OperationType.NEG: LoweringRule(_FLOATS | {I32}),
    OperationType.NOT_EQUAL: LoweringRule(_DISCRETE | {B8}),
    OperationType.PACK: LoweringRule(_MOVABLE, main=1),
    OperationType.PAD: LoweringRule(constants=(PadInput.PADDINGS,)),
    OperationType.PAD_V2: LoweringRule(constants=(PadInput.PADDINGS,)),
    OperationType.POW: LoweringRule(_FLOATS),
    OperationType.PRELU: LoweringRule(check=_slope),
    OperationType.QUANTIZE: LoweringRule(_FLOATS),
    OperationType.REDUCE_ALL: _REDUCED_TRUTH,
    OperationType.REDUCE_ANY: _REDUCED_TRUTH,
    OperationType.REDUCE_MAX: _REDUCED,
    OperationType.REDUCE_MIN: _REDUCED,
    OperationType.REDUCE_PROD: _REDUCED_FLOATS,
    OperationType.REDUCE_SUM: _REDUCED_FLOATS,
    OperationType.RELU: LoweringRule(),
    OperationType.RELU1: LoweringRule(),
    OperationType.RELU6: LoweringRule(),
    OperationType.RESHAPE: LoweringRule(_MOVABLE, (ReshapeInput.SHAPE,), _reshape),
    OperationType.RESIZE_BILINEAR: LoweringRule(check=_image),
    OperationType.RESIZE_NEAREST_NEIGHBOR: LoweringRule(check=_image),
    OperationType.REVERSE: LoweringRule(_MOVABLE, (ReverseInput.AXIS,)),
    OperationType.RSQRT: LoweringRule(_FLOATS),
    OperationType.SELECT: LoweringRule(_MOVABLE, main=1),
    OperationType.SIN: LoweringRule(_FLOATS),
    OperationType.SLICE: LoweringRule(_MOVABLE, (SlicingInput.BEGIN, SlicingInput.SIZE), _slice),
    OperationType.SOFTMAX: LoweringRule(),
    OperationType.SPACE_TO_BATCH_ND: LoweringRule(
        constants=(SpaceToBatchInput.BLOCK_SIZES, SpaceToBatchInput.PADDINGS), check=_reshaped
    ),
    OperationType.SPACE_TO_DEPTH: LoweringRule(check=_reshaped),
    OperationType.SPLIT: LoweringRule(_MOVABLE),
    OperationType.SQRT: LoweringRule(_FLOATS),
    OperationType.SQUEEZE: LoweringRule(constants=(SqueezeInput.AXES,)),
    OperationType.STRIDED_SLICE: LoweringRule(
        constants=(StridedSliceInput.BEGIN, StridedSliceInput.END, StridedSliceInput.STRIDES),
        check=_strided,
    ),
    OperationType.SUB: LoweringRule(_MOVABLE),
    OperationType.TANH: LoweringRule(),
    OperationType.TILE: LoweringRule(_MOVABLE, (TileInput.MULTIPLES,), _tile),
    OperationType.TRANSPOSE: LoweringRule(constants=(TransposeInput.PERMUTATION,)),
    OperationType.TRANSPOSE_CONV_2D: LoweringRule(constants=(TransposeConv2dImplicit.OUTPUT_SHAPE,), check=_image),
}
"""One rule for each operation that is lowered."""
