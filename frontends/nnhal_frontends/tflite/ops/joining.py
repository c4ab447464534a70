"""Operators that join tensors along an axis, or split them."""

from __future__ import annotations

from tflite import ConcatenationOptions, PackOptions, SplitOptions, UnpackOptions

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder


def concatenation(b: OperatorBuilder) -> None:
    """CONCATENATION."""
    options = b.options(ConcatenationOptions)
    axis = b.axis(options.Axis(), len(b.shape(0)))
    b.finish_activated(OperationType.CONCATENATION, [*b.inputs(), b.int32(axis)], options.FusedActivationFunction())


def pack(b: OperatorBuilder) -> None:
    """PACK along a new axis."""
    given = b.tflite_shape(0)
    axis = b.axis(b.options(PackOptions).Axis(), len(given) + 1)
    if given:
        b.finish(OperationType.PACK, [b.int32(axis), *b.inputs()])
    else:
        b.finish(OperationType.CONCATENATION, [*b.inputs(), b.int32(axis)])


def unpack(b: OperatorBuilder) -> None:
    """SPLIT into slices of length 1, from which a RESHAPE removes the axis."""
    given = b.shape(0)
    axis = b.axis(b.options(UnpackOptions).Axis(), len(given))
    count = len(b.operator.outputs)
    slices = [b.new(b.input(0)) for _ in range(count)]
    b.add(OperationType.SPLIT, [b.input(0), b.int32(axis), b.int32(count)], slices)
    for output, part in enumerate(slices):
        b.finish_reshape(part, given[:axis] + given[axis + 1 :], output)


def split(b: OperatorBuilder) -> None:
    """SPLIT into equal parts."""
    axis_input, tensor = 0, 1
    axis = b.axis(b.integer(axis_input, "axis"), len(b.shape(tensor)))
    count = b.options(SplitOptions).NumSplits()
    b.add(OperationType.SPLIT, [b.input(tensor), b.int32(axis), b.int32(count)], b.results())


def split_v(b: OperatorBuilder) -> None:
    """SPLIT if the parts are equal, otherwise a SLICE for each part."""
    tensor, sizes_input, axis_input = range(3)
    given = b.shape(tensor)
    axis = b.axis(b.integer(axis_input, "axis"), len(given))
    sizes = _completed(b.integers(sizes_input, "sizes"), given[axis])
    if len(sizes) != len(b.operator.outputs):
        raise b.unsupported(f"{len(sizes)} sizes and {len(b.operator.outputs)} outputs", "equal numbers")
    if len(set(sizes)) == 1:
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
