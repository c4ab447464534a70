"""Slice and Split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter

_INT32_MAX = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of an axis that is kept. Negative bounds count from its end; None is the end in that direction."""

    begin: int | None = None
    end: int | None = None
    stride: int = 1

    @property
    def whole(self) -> bool:
        """Return whether the whole axis is kept."""
        return self.stride == 1 and self.begin in (None, 0) and self.end is None

    def indices(self, length: int) -> range:
        """Return the indices that are kept of an axis of known length."""
        return range(*slice(self.begin, self.end, self.stride).indices(length))


def slice_axes(b: NodeBuilder) -> None:
    """SLICE for stride 1, otherwise STRIDED_SLICE, or GATHER for integers, which STRIDED_SLICE does not take."""
    shape = b.shape(0)
    cuts = _cuts(b, len(shape))
    lengths = [length for length, cut in zip(shape, cuts, strict=True) if not cut.whole]
    if not lengths:
        b.finish_reshape(b.input(0))
    elif 0 in lengths:
        _strided(b, cuts)
    elif all(cut.stride == 1 for cut in cuts):
        _neighbours(b, cuts, shape)
    elif b.operand(b.input(0)).type == OperandType.TENSOR_INT32:
        _gather(b, cuts, shape)
    else:
        _strided(b, cuts)


def split(b: NodeBuilder) -> None:
    """SPLIT into equal parts, otherwise a SLICE for each part."""
    shape = b.shape(0)
    axis = b.attribute("axis", 0)
    axis += len(shape) if axis < 0 else 0
    length, count = shape[axis], len(b.node.outputs)
    lengths = b.integers(1, "split") or _even(b, length, count)
    if len(set(lengths)) == 1 and length:
        b.finish_all(OperationType.SPLIT, [b.input(0), b.int32(axis), b.int32(count)])
        return
    begin = 0
    for index, size in enumerate(lengths):
        if b.used(index):
            begins, sizes = [0] * len(shape), [-1] * len(shape)
            begins[axis], sizes[axis] = begin, size
            b.finish(OperationType.SLICE, [b.input(0), b.vector(begins), b.vector(sizes)], index)
        begin += size


def _even(b: NodeBuilder, length: int, count: int) -> list[int]:
    """Return the lengths of equal parts. The last part is shorter if there is a remainder."""
    if not length:
        raise b.node.unsupported("an axis of unknown length is split", "fixed shapes of the model's inputs")
    part = -(-length // count)
    return [part] * (count - 1) + [length - part * (count - 1)]


def _cuts(b: NodeBuilder, rank: int) -> list[Cut]:
    starts, ends = b.integers(1, "starts"), b.integers(2, "ends")
    if starts is None or ends is None:
        raise b.node.unsupported("no starts or no ends", "both")
    axes = b.integers(3, "axes") or list(range(len(starts)))
    steps = b.integers(4, "steps") or [1] * len(starts)
    cuts = [Cut()] * rank
    shape = b.shape(0)
    for axis, begin, end, stride in zip(axes, starts, ends, steps, strict=True):
        if stride < 0 and begin < 0 and not shape[axis]:
            raise b.node.unsupported("an axis of unknown length is cut backwards from near its end", "known lengths")
        cuts[axis] = _cut(begin, end, stride, shape[axis])
    return cuts


def _cut(begin: int, end: int, stride: int, length: int) -> Cut:
    """Return a cut with bounds beyond 32 bits, or beyond a known axis, replaced by the ends of the axis."""
    begin, end, stride = (max(-_INT32_MAX, min(value, _INT32_MAX)) for value in (begin, end, stride))
    limit = length or _INT32_MAX
    if stride < 0 and begin < -limit:
        begin = 0  # as ONNX clamps it; other slices would be empty
    first = None if (begin >= limit and stride < 0) or (begin <= -limit and stride > 0) else begin
    last = None if (end >= limit and stride > 0) or (end < -limit and stride < 0) else end
    return Cut(first, last, stride)


def _neighbours(b: NodeBuilder, cuts: list[Cut], shape: Dimensions) -> None:
    kept = [range(0) if cut.whole else cut.indices(length) for cut, length in zip(cuts, shape, strict=True)]
    begins = [each.start if each else 0 for each in kept]
    sizes = [-1 if cut.whole else len(each) for cut, each in zip(cuts, kept, strict=True)]
    if 0 in sizes:
        raise b.node.unsupported("a slice without elements", "at least one")
    b.finish(OperationType.SLICE, [b.input(0), b.vector(begins), b.vector(sizes)])


def _strided(b: NodeBuilder, cuts: list[Cut]) -> None:
    begin_mask = sum(1 << axis for axis, cut in enumerate(cuts) if cut.begin is None)
    end_mask = sum(1 << axis for axis, cut in enumerate(cuts) if cut.end is None)
    bounds = [b.vector([cut.begin or 0 for cut in cuts]), b.vector([cut.end or 0 for cut in cuts])]
    strides = b.vector([cut.stride for cut in cuts])
    masks = [b.int32(begin_mask), b.int32(end_mask), b.int32(0)]
    b.finish(OperationType.STRIDED_SLICE, [b.input(0), *bounds, strides, *masks])


def _gather(b: NodeBuilder, cuts: list[Cut], shape: Dimensions) -> None:
    """Finish with a GATHER for each axis."""
    value = b.input(0)
    kept = {axis: cut.indices(shape[axis]) for axis, cut in enumerate(cuts) if not cut.whole}
    if not all(kept.values()):
        raise b.node.unsupported("a slice without elements", "at least one")
    for taken in kept.values():
        b.reserve((len(taken),), np.dtype(np.int32))
    parts = [(axis, list(taken)) for axis, taken in kept.items()]
    for axis, indices in parts[:-1]:
        value = b.apply(OperationType.GATHER, [value, b.int32(axis), b.vector(indices)])
    axis, indices = parts[-1]
    b.finish(OperationType.GATHER, [value, b.int32(axis), b.vector(indices)])


SLICE = Converter(slice_axes)
SPLIT = Converter(split)
