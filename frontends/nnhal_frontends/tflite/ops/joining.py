"""Operators that join tensors along an axis, or split them."""

from __future__ import annotations

from tflite import ConcatenationOptions, PackOptions, SplitOptions, UnpackOptions

from nnhal.types import OperandType, OperationType
from nnhal.types.layout import describe
from nnhal_frontends.tflite.builder import OperatorBuilder

_MOST_SLICES = 64
"""Concatenated integers are mostly shapes."""


def concatenation(b: OperatorBuilder) -> None:
    """CONCATENATION, for which the HAL has no integers of 32 bits: these are cut into slices that a PACK joins."""
    options = b.options(ConcatenationOptions)
    axis = b.axis(options.Axis, len(b.shape(0)))
    if b.operand(b.input(0)).type == OperandType.TENSOR_INT32:
        _join_integers(b, axis)
        return
    b.finish_activated(OperationType.CONCATENATION, [*b.inputs(), b.int32(axis)], options.FusedActivationFunction)


def pack(b: OperatorBuilder) -> None:
    """PACK along a new axis."""
    given = b.tflite_shape(0)
    axis = b.axis(b.options(PackOptions).Axis, len(given) + 1)
    if given:
        b.finish(OperationType.PACK, [b.int32(axis), *b.inputs()])
    elif b.operand(b.input(0)).type == OperandType.TENSOR_INT32:
        _join_integers(b, axis)
    else:
        b.finish(OperationType.CONCATENATION, [*b.inputs(), b.int32(axis)])


def _join_integers(b: OperatorBuilder, axis: int) -> None:
    """PACK slices of length 1 along an axis, and RESHAPE the result, which has one axis more."""
    shapes = [b.shape(index) for index in range(len(b.operator.inputs))]
    if any(0 in shape for shape in shapes) or len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) != 1:
        raise b.unsupported(f"integers of {' and '.join(map(describe, shapes))}", "known shapes that fit one another")
    length = sum(shape[axis] for shape in shapes)
    if length > _MOST_SLICES:
        raise b.unsupported(f"{length} slices of integers", f"at most {_MOST_SLICES}")
    slices: list[int] = []
    for operand, shape in zip(b.inputs(), shapes, strict=True):
        parts = [operand] if shape[axis] == 1 else [b.new(operand) for _ in range(shape[axis])]
        if len(parts) > 1:
            b.add(OperationType.SPLIT, [operand, b.int32(axis), b.int32(shape[axis])], parts)
        slices += parts
    packed = b.apply(OperationType.PACK, [b.int32(axis), *slices], like=slices[0])
    b.finish_reshape(packed, (*shapes[0][:axis], length, *shapes[0][axis + 1 :]))


def unpack(b: OperatorBuilder) -> None:
    """SPLIT into slices of length 1, from which a RESHAPE removes the axis."""
    given = b.shape(0)
    axis = b.axis(b.options(UnpackOptions).Axis, len(given))
    count = len(b.operator.outputs)
    slices = [b.new(b.input(0)) for _ in range(count)]
    b.add(OperationType.SPLIT, [b.input(0), b.int32(axis), b.int32(count)], slices)
    for output, part in enumerate(slices):
        b.finish_reshape(part, given[:axis] + given[axis + 1 :], output)


def split(b: OperatorBuilder) -> None:
    """SPLIT into equal parts."""
    axis_input, tensor = 0, 1
    axis = b.axis(b.integer(axis_input, "axis"), len(b.shape(tensor)))
    count = b.options(SplitOptions).NumSplits
    b.add(OperationType.SPLIT, [b.input(tensor), b.int32(axis), b.int32(count)], b.results())


def split_v(b: OperatorBuilder) -> None:
    """SPLIT if the parts are equal, otherwise a SLICE for each part."""
    tensor, sizes_input, axis_input = range(3)
    given = b.shape(tensor)
    axis = b.axis(b.integer(axis_input, "axis"), len(given))
    sizes = b.integers(sizes_input, "sizes")
    if -1 in sizes[:-1] and not given[axis]:
        raise b.unsupported("a part that is not the last takes what others leave of an unknown length", "known lengths")
    sizes = _completed(sizes, given[axis]) if given[axis] else sizes
    if len(sizes) != len(b.operator.outputs):
        raise b.unsupported(f"{len(sizes)} sizes and {len(b.operator.outputs)} outputs", "equal numbers")
    if len(set(sizes)) == 1 and -1 not in sizes:
        b.add(OperationType.SPLIT, [b.input(tensor), b.int32(axis), b.int32(len(sizes))], b.results())
        return
    start = 0
    for output, size in enumerate(sizes):
        begins = [start if i == axis else 0 for i in range(len(given))]
        lengths = [size if i == axis else -1 for i in range(len(given))]
        b.add(OperationType.SLICE, [b.input(tensor), b.vector(begins), b.vector(lengths)], [b.result(output)])
        start += size


def _completed(sizes: list[int], length: int) -> list[int]:
    """Replace a size of -1 by what the other sizes leave."""
    if -1 not in sizes:
        return sizes
    rest = length - sum(size for size in sizes if size != -1)
    return [rest if size == -1 else size for size in sizes]
