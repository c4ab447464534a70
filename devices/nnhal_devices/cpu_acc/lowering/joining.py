"""Tensors joined (CONCATENATION, PACK, TILE), and some of their elements (slices, SPLIT, REVERSE, GATHER)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from nnhal.operations.dimensions import axis_of
from nnhal.operations.joining import (
    REST,
    PackInput,
    SlicingInput,
    SplitInput,
    StridedSliceInput,
    axis_input,
    strided_slices,
)
from nnhal.operations.lookup import GatherInput
from nnhal.operations.movement import ReverseInput, TileInput, axis_of_reversal
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_TO_THE_START = np.iinfo(np.int64).min
"""An end before the first element, for any length."""
_AT_THE_END = np.iinfo(np.int64).max
"""The last element, or the end after it, for any length."""


def concatenation(to: Emitter) -> None:
    """Tensors that are quantised like the output are joined as they are, others as reals."""
    positions = range(axis_input(to.op))
    layout = to.common_layout(positions)
    axis = layout.axis(to.op.integer(axis_input(to.op)))
    output = to.op.outputs[0]
    if all((to.op.inputs[p].scale, to.op.inputs[p].zero_point) == (output.scale, output.zero_point) for p in positions):
        to.keep(to.graph.add("Concat", *(to.kept(p, layout) for p in positions), axis=axis), layout)
    else:
        to.keep_real(to.graph.add("Concat", *(to.real(p, layout) for p in positions), axis=axis), layout)


def pack(to: Emitter) -> None:
    """Each tensor gets the new axis; there they are joined."""
    axis = to.op.integer(PackInput.AXIS)
    axes = to.graph.integers([axis])
    tensors = range(PackInput.FIRST, len(to.inputs))
    to.keep(to.graph.add("Concat", *(to.graph.add("Unsqueeze", to.kept(p), axes) for p in tensors), axis=axis))


def tile(to: Emitter) -> None:
    """A tensor joined with itself along each axis."""
    multiples = to.graph.integers(to.op.integers(TileInput.MULTIPLES))
    to.keep(to.graph.add("Tile", to.kept(TileInput.INPUT), multiples))


def slice_box(to: Emitter) -> None:
    """A begin and a size for each axis."""
    begins = to.op.integers(SlicingInput.BEGIN)
    sizes = zip(begins, to.op.integers(SlicingInput.SIZE), strict=True)
    kept = [slice(begin, None if size == REST else begin + size) for begin, size in sizes]
    to.keep(_slice(to, to.kept(SlicingInput.INPUT), kept))


def strided(to: Emitter) -> None:
    """Slice, then drop the axes that are shrunk."""
    kept = strided_slices(to.op)
    tensor = _slice(to, to.kept(StridedSliceInput.INPUT), kept)
    mask = to.op.integer(StridedSliceInput.SHRINK_MASK)
    shrunk = [axis for axis in range(len(kept)) if mask >> axis & 1]
    if len(shrunk) == len(kept):
        shrunk = shrunk[1:]
    to.keep(to.graph.add("Squeeze", tensor, to.graph.integers(shrunk)) if shrunk else tensor)


def reverse(to: Emitter) -> None:
    """A slice with stride -1."""
    axis = axis_of_reversal(to.op)
    bounds = (to.graph.integers([value]) for value in (-1, _TO_THE_START, axis, -1))
    to.keep(to.graph.add("Slice", to.kept(ReverseInput.INPUT), *bounds))


def split(to: Emitter) -> None:
    """One output for each part."""
    layout = to.common_layout((SplitInput.INPUT,))
    axis = axis_of(to.op, to.op.integer(SplitInput.AXIS), len(to.op.ranked(SplitInput.INPUT)))
    count = len(to.outputs)
    parts = to.graph.add_many(
        "Split", [to.kept(SplitInput.INPUT, layout)], count, axis=layout.axis(axis), num_outputs=count
    )
    for output, part in enumerate(parts):
        to.keep(part, layout, output)


def gather(to: Emitter) -> None:
    """Constant indices are within the axis. ONNX counts negative ones from the back; those of variables, which the HAL
    has a run fail for, become too large.
    """
    axis = axis_of(to.op, to.op.integer(GatherInput.AXIS), len(to.op.ranked(GatherInput.INPUT)))
    indices = to.kept(GatherInput.INDICES)
    if not to.graph.is_constant(to.inputs[GatherInput.INDICES]):
        indices = to.graph.add("Cast", to.graph.add("Cast", indices, to=TensorProto.UINT32), to=TensorProto.INT64)
    to.keep(to.graph.add("Gather", to.kept(GatherInput.INPUT), indices, axis=axis))


def _slice(to: Emitter, tensor: str, kept: Sequence[slice]) -> str:
    """ONNX has the same rules for bounds as Python, but no None."""
    starts, ends = [], []
    for each in kept:
        first, last = (_AT_THE_END, _TO_THE_START) if (each.step or 1) < 0 else (0, _AT_THE_END)
        starts.append(first if each.start is None else each.start)
        ends.append(last if each.stop is None else each.stop)
    bounds = starts, ends, range(len(kept)), [each.step or 1 for each in kept]
    return to.graph.add("Slice", tensor, *(to.graph.integers(values) for values in bounds))
