"""CONCATENATION, SPLIT, slices, paddings and views."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.joining import SlicingInput, StridedSliceInput, axis_input, strided_ranges
from nnhal.operations.movement import PadInput
from nnhal.operations.shape import ReshapeInput, SqueezeInput
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import NpuRule


def _parts(op: OperationContext) -> Sequence[int]:
    return range(axis_input(op))


def _strided_slice(op: OperationContext) -> Support:
    strides = [indices.step for indices in strided_ranges(op)]
    if all(stride == 1 for stride in strides):
        return SUPPORTED
    return Unsupported("STRIDE", f"strides of {strides}", "1 on each axis", "place it on a CPU or GPU device")


CONCATENATION = NpuRule(tensors=_parts)
EXPAND_DIMS = NpuRule()
PAD = NpuRule((PadInput.PADDINGS,))
RESHAPE = NpuRule((ReshapeInput.SHAPE,))
SLICE = NpuRule((SlicingInput.BEGIN, SlicingInput.SIZE))
SPLIT = NpuRule()
SQUEEZE = NpuRule((SqueezeInput.AXES,))
STRIDED_SLICE = NpuRule((StridedSliceInput.BEGIN, StridedSliceInput.END, StridedSliceInput.STRIDES), _strided_slice)
