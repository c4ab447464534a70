"""Operations that join tensors, split them, and take parts of them.

CONCATENATION: tensors joined along an axis.

PACK: tensors of equal dimensions stacked along a new axis.

SPLIT: equal parts of a tensor along an axis, one output for each.

SLICE: a contiguous part of a tensor.

STRIDED_SLICE: elements of each axis from a begin towards an end in strides, which may be negative.
Bit i of a mask concerns axis i. Begin and end masks replace the bound by the respective end of the axis. The shrink
mask removes an axis with one remaining element.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.arrays import Array
from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import agreed, axis_of, integers_per_axis, require_input_quantization
from nnhal.operations.layout_rules import FollowsOrder, Rewritten, along, int32, per_axis
from nnhal.operations.operand_types import F16, F32, I32, INT32, Q8A, Q8AS
from nnhal.operations.operands import (
    Inputs,
    same,
    scalar,
    signature,
    tensor,
)
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, combine, describe
from nnhal.types.orders import Order, without


def axis_input(op: OperationContext) -> int:
    """Return the index of the axis input: the last one. All inputs before it are tensors."""
    return len(op.inputs) - 1


def validate_concatenation(op: Signature) -> None:
    """Require one tensor or more, all of one type. A quantisation other than the output's needs feature level 3."""
    if len(op.inputs) < 2:
        op.context.refuse(f"got {len(op.inputs)} inputs, expected at least 2: tensors and an axis")
    axis = axis_input(op.context)
    op.count(axis + 1)
    main = op.tensor(0, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    for index in range(1, axis):
        op.same(index, 0, rank=(1, 4))
    op.scalar(axis, INT32)
    output = op.outputs[0]
    op.output(0, main, rank=(1, 4))
    if any((o.scale, o.zero_point) != (output.scale, output.zero_point) for o in op.inputs[:axis]):
        op.since(3)


def prepare_concatenation(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the tensors' common dimensions, with the lengths along the axis added up."""
    count = axis_input(op)
    tensors = [op.ranked(index, (1, 4)) for index in range(count)]
    axis = op.integer(count)
    if not 0 <= axis < len(tensors[0]):
        op.refuse(f"axis {axis}, expected 0 to {len(tensors[0]) - 1}")
    common = tensors[0]
    for dimensions in tensors:
        others = _with_length(dimensions, axis, common[axis]) if len(dimensions) == len(common) else dimensions
        merged = combine(common, others)
        if merged is None or (op.executing and common != others):
            op.refuse(
                f"inputs of {describe(tensors[0])} and {describe(dimensions)}, expected equal dimensions except along "
                f"axis {axis}"
            )
        else:
            common = merged
    lengths = [dimensions[axis] for dimensions in tensors]
    unknown = 0 in lengths and not op.executing
    return (_with_length(common, axis, 0 if unknown else sum(lengths)),)


def _with_length(dimensions: Dimensions, axis: int, length: int) -> Dimensions:
    return (*dimensions[:axis], length, *dimensions[axis + 1 :])


CONCATENATION = OperationDefinition(
    OperationType.CONCATENATION, 1, validate_concatenation, prepare_concatenation, layout=along(None, tensors=-1)
)


class PackInput(IntEnum):
    """The inputs: the axis, then one tensor or more."""

    AXIS = 0
    """Of the output; it comes first, the tensors after it."""
    FIRST = 1
    """Any rank; further inputs are the same."""


def validate_pack(op: Signature) -> None:
    """Require tensors of one type and quantisation. The output has one axis more."""
    count = op.count(max(2, len(op.inputs)), names=PackInput)
    op.scalar(PackInput.AXIS, INT32)
    main = op.tensor(PackInput.FIRST, {F16: 6, F32: 6, I32: 6, Q8A: 6, Q8AS: 6})
    op.output(0, main)
    output = op.outputs[0]
    for index in range(PackInput.FIRST, count):
        op.same(index, PackInput.FIRST)
        operand = op.inputs[index]
        op.same_quantization(operand, output, f"input {index} and the output")
        if operand.dimensions and output.dimensions and len(operand.dimensions) + 1 != len(output.dimensions):
            op.context.refuse(
                f"input {index} has rank {len(operand.dimensions)} and the output rank {len(output.dimensions)}, "
                "expected one more for the output"
            )


def prepare_pack(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the inputs' dimensions with their number at the axis, which is an axis of the output."""
    dimensions = agreed(op, *range(PackInput.FIRST, len(op.inputs)))
    axis = op.integer(PackInput.AXIS)
    if not 0 <= axis <= len(dimensions):
        op.refuse(f"axis {axis}, expected 0 to {len(dimensions)}")
    return ((*dimensions[:axis], len(op.inputs) - PackInput.FIRST, *dimensions[axis:]),)


PACK = OperationDefinition(OperationType.PACK, 6, validate_pack, prepare_pack)


class SplitInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any rank."
    AXIS = scalar(INT32), "From -rank to rank - 1."
    NUM_SPLITS = scalar(INT32), "How many outputs there are."


def prepare_split(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with the axis divided, for each output."""
    for index in range(len(op.outputs)):
        require_input_quantization(op, SplitInput.INPUT, index)
    count = op.integer(SplitInput.NUM_SPLITS)
    if count != len(op.outputs):
        op.refuse(f"got {count} splits and {len(op.outputs)} outputs, expected equal numbers")
    dimensions = op.ranked(SplitInput.INPUT)
    axis = axis_of(op, op.integer(SplitInput.AXIS), len(dimensions))
    if dimensions[axis] % count:
        op.refuse(f"axis {axis} has {dimensions[axis]} elements, expected a multiple of {count}")
    return ((*dimensions[:axis], dimensions[axis] // count, *dimensions[axis + 1 :]),) * count


SPLIT = OperationDefinition(
    OperationType.SPLIT, 3, signature(SplitInput, same(), many=True), prepare_split, layout=along(SplitInput.AXIS)
)


REST = -1
"""The size that stands for all elements from the beginning of the slice on."""


class SlicingInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any rank."
    BEGIN = tensor({I32: 1}, rank=1), "[rank]."
    SIZE = tensor({I32: 1}, rank=1), "[rank]; -1 for all that follows."


def prepare_slicing(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the sizes; 0 for what follows on an axis of unknown length."""
    require_input_quantization(op)
    begins = integers_per_axis(op, SlicingInput.BEGIN, SlicingInput.INPUT)
    sizes = integers_per_axis(op, SlicingInput.SIZE, SlicingInput.INPUT)
    result = []
    for axis, (length, begin, size) in enumerate(zip(op.ranked(SlicingInput.INPUT), begins, sizes, strict=True)):
        is_open = not length and not op.executing
        count = size if size != REST else 0 if is_open else length - begin
        if begin < 0 or count < 0 or (begin + count > length and not is_open):
            op.refuse(f"begin {begin} and size {size} on axis {axis}, expected a part of its {length} elements")
        result.append(count)
    return (tuple(result),)


SLICE = OperationDefinition(
    OperationType.SLICE,
    3,
    signature(SlicingInput, same()),
    prepare_slicing,
    layout=per_axis(SlicingInput.BEGIN, SlicingInput.SIZE),
)


class StridedSliceInput(Inputs):
    INPUT = tensor({F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."
    BEGIN = tensor({I32: 1}, rank=1), "[rank]; below 0 from the end."
    END = tensor({I32: 1}, rank=1), "[rank]; below 0 from the end."
    STRIDES = tensor({I32: 1}, rank=1), "[rank], none of them 0."
    BEGIN_MASK = scalar(INT32), "Bit n: axis n begins at its first element."
    END_MASK = scalar(INT32), "Bit n: axis n ends at its last element."
    SHRINK_MASK = scalar(INT32), "Bit n: axis n keeps one element, and is removed."


def strided_slices(op: OperationContext) -> tuple[slice, ...]:
    """Return what to keep of each axis of the input, with Python's rules for bounds. Raises UnknownYet."""
    rank = len(op.ranked(StridedSliceInput.INPUT, (1, 4)))
    begins, ends, strides = (
        integers_per_axis(op, index, StridedSliceInput.INPUT)
        for index in (StridedSliceInput.BEGIN, StridedSliceInput.END, StridedSliceInput.STRIDES)
    )
    begin_mask, end_mask = op.integer(StridedSliceInput.BEGIN_MASK), op.integer(StridedSliceInput.END_MASK)
    result = []
    for axis in range(rank):
        if strides[axis] == 0:
            op.refuse(f"stride 0 on axis {axis}, expected a stride other than 0")
        begin = None if begin_mask >> axis & 1 else begins[axis]
        end = None if end_mask >> axis & 1 else ends[axis]
        result.append(slice(begin, end, strides[axis]))
    return tuple(result)


def strided_ranges(op: OperationContext) -> tuple[range, ...]:
    """Return the indices to keep of each axis of the input. Raises UnknownYet."""
    return ranges_of(strided_slices(op), op.known_dimensions(StridedSliceInput.INPUT))


def ranges_of(slices: tuple[slice, ...], lengths: Dimensions) -> tuple[range, ...]:
    """Return the indices that slices keep of axes; none of an axis of unknown length."""
    return tuple(range(*kept.indices(length)) for kept, length in zip(slices, lengths, strict=True))


def prepare_strided_slice(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return how many elements of each axis remain. Shrunk axes are removed, but at least one axis remains."""
    require_input_quantization(op)
    shrink_mask, lengths = op.integer(StridedSliceInput.SHRINK_MASK), op.ranked(StridedSliceInput.INPUT, (1, 4))
    result = []
    for axis, indices in enumerate(ranges_of(strided_slices(op), lengths)):
        if not shrink_mask >> axis & 1:
            result.append(len(indices))
        elif indices.step < 0 or (len(indices) != 1 and (lengths[axis] or op.executing)):
            op.refuse(
                f"axis {axis} is shrunk and keeps {len(indices)} elements with stride {indices.step}, "
                "expected 1 element and a stride above 0"
            )
    return (tuple(result) or (1,),)


def _sliced_in_strides(op: OperationContext, order: Order) -> Rewritten | None:
    """Rewrite STRIDED_SLICE, whose masks have a bit for each axis."""
    names = StridedSliceInput
    rewritten = per_axis(names.BEGIN, names.END, names.STRIDES).rewrite(op, order)
    if rewritten is None:
        return None
    masks = {name: op.integer(name) for name in (names.BEGIN_MASK, names.END_MASK, names.SHRINK_MASK)}
    moved: dict[int, Array] = {
        name: int32(sum((mask >> axis & 1) << index for index, axis in enumerate(order)))
        for name, mask in masks.items()
    }
    shrunk = [axis for axis in order if masks[names.SHRINK_MASK] >> axis & 1]
    return Rewritten((without(order, shrunk),), {**rewritten.parameters, **moved})


STRIDED_SLICE = OperationDefinition(
    OperationType.STRIDED_SLICE,
    2,
    signature(StridedSliceInput, same()),
    prepare_strided_slice,
    layout=FollowsOrder(_sliced_in_strides),
)
