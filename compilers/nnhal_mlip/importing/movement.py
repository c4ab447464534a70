"""Operations that compute nothing: CAST, CONCATENATION, PAD, slices, orders of axes, and other dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from nnhal.operations import OperationContext
from nnhal.operations.dimensions import axis_of
from nnhal.operations.joining import SlicingInput, SplitInput, axis_input, strided_ranges
from nnhal.operations.movement import ChannelShuffleInput, PadInput, TransposeInput, paddings_of_pad, permutation
from nnhal.operations.operand_types import QUANT8
from nnhal.operations.shape import SqueezeInput
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal_mlip.flow.graph.flow_graph import Attribute
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_operation import HalOperation


def emit_cast(op: HalOperation) -> str:
    """Return the input of a CAST between floats: the accelerator holds both types as float16."""
    return op.tensor(0)


def emit_concatenation(op: HalOperation) -> str:
    count = axis_input(op.context)
    tensors = [op.tensor(position) for position in range(count)]
    return op.add(Operator.CONCATENATE, tensors, {"axis": op.context.integer(count)})


def emit_pad(op: HalOperation) -> str:
    """Add the node of a PAD or PAD_V2."""
    widths = tuple(width for pair in paddings_of_pad(op.context) for width in pair)
    attributes: dict[str, Attribute] = {"pad_width": widths, "pad_value": _padding_value(op), "pad_mode": "constant"}
    return op.add(Operator.PAD, [op.tensor(PadInput.INPUT)], attributes)


def emit_reshape(op: HalOperation) -> str:
    """Add the node of a RESHAPE, or of an EXPAND_DIMS."""
    return op.add(Operator.RESHAPE, [op.tensor(0)], {"newshape": op.output.shape})


def emit_squeeze(op: HalOperation) -> str:
    """Add the node of a SQUEEZE: a reshape if no axis goes, or all of them would."""
    given = op.context.dimensions(SqueezeInput.INPUT)
    if op.context.has(SqueezeInput.AXES):
        named = op.context.integers(SqueezeInput.AXES)
        axes = tuple(sorted({axis_of(op.context, axis, len(given)) for axis in named}))
    else:
        axes = tuple(axis for axis, length in enumerate(given) if length == 1)
    if len(given) - len(axes) != len(op.output.shape) or not axes:
        return emit_reshape(op)
    return op.add(Operator.SQUEEZE, [op.tensor(SqueezeInput.INPUT)], {"axis": axes})


def emit_transpose(op: HalOperation) -> str:
    axes = permutation(op.context)
    return op.add(Operator.TRANSPOSE, [op.tensor(TransposeInput.INPUT)], {"axes": axes})


def emit_channel_shuffle(op: HalOperation) -> str:
    """Add the nodes of a CHANNEL_SHUFFLE: a transposition of groups and the channels in them."""
    shape, groups = op.output.shape, op.context.integer(ChannelShuffleInput.GROUPS)
    axis = axis_of(op.context, op.context.integer(ChannelShuffleInput.AXIS), len(shape))
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    around = ((before,), (after,)) if after > 1 else ((1, before), ())  # so that the first axis is a short batch
    parts, turned = (groups, shape[axis] // groups), (shape[axis] // groups, groups)
    at = len(around[0])
    axes = (*range(at), at + 1, at, *range(at + 2, at + 2 + len(around[1])))
    apart, swapped = (op.output._replace(shape=(*around[0], *each, *around[1])) for each in (parts, turned))
    data = op.add(Operator.RESHAPE, [op.tensor(ChannelShuffleInput.INPUT)], {"newshape": apart.shape}, apart)
    return op.add(Operator.RESHAPE, [op.add(Operator.TRANSPOSE, [data], {"axes": axes}, swapped)], {"newshape": shape})


def emit_slice(op: HalOperation) -> str:
    begins = op.context.integers(SlicingInput.BEGIN)
    return _sliced(op, [(begin, begin + kept) for begin, kept in zip(begins, op.output.shape, strict=True)])


def emit_strided_slice(op: HalOperation) -> str:
    """Add the nodes of a STRIDED_SLICE of neighbours."""
    return _sliced(op, [(kept.start, kept.stop) for kept in strided_ranges(op.context)])


def neighbours_only(op: OperationContext) -> Support:
    """Refuse strides and nothing at all."""
    for axis, kept in enumerate(strided_ranges(op)):
        if kept.step != 1 or not kept:
            got = f"{len(kept)} elements of axis {axis} with stride {kept.step}"
            return Unsupported("NO_IMPL", got, "some elements, with stride 1")
    return SUPPORTED


def _sliced(op: HalOperation, cuts: Iterable[tuple[int, int]]) -> str:
    """Add a node for each axis that gets shorter, and one for axes that go."""
    data = op.tensor(0)
    shape = list(op.context.dimensions(0))
    for axis, (begin, end) in enumerate(cuts):
        if end - begin < shape[axis]:
            shape[axis] = end - begin
            value = op.output._replace(shape=tuple(shape))
            data = op.add(Operator.STRIDED_SLICE, [data], {"axis": axis, "begin": begin, "end": end}, value)
    if tuple(shape) != op.output.shape:
        data = op.add(Operator.RESHAPE, [data], {"newshape": op.output.shape})
    return data


def emit_split(op: HalOperation) -> tuple[str, ...]:
    """Add the nodes of a SPLIT, a slice for each part."""
    data, length = op.tensor(SplitInput.INPUT), len(op.outputs[0].shape)
    axis = axis_of(op.context, op.context.integer(SplitInput.AXIS), length)
    size = op.output.shape[axis]
    return tuple(
        op.add(Operator.STRIDED_SLICE, [data], {"axis": axis, "begin": size * at, "end": size * (at + 1)}, value)
        for at, value in enumerate(op.outputs)
    )


def _padding_value(op: HalOperation) -> float:
    """The real number that a tensor is padded with."""
    context = op.context
    if len(context.inputs) <= PadInput.VALUE:
        return 0.0
    value, given = float(context.value(PadInput.VALUE)), context.inputs[PadInput.INPUT]
    return (value - given.zero_point) * given.scale if given.type in QUANT8 else value
