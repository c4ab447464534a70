"""CONCATENATION, SPLIT, slices, paddings and views."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext, concatenation, pad, reshape, slicing, squeeze, strided_slice
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import NpuRule


def _parts(op: OperationContext) -> Sequence[int]:
    return range(concatenation.axis_input(op))


def _strided_slice(op: OperationContext) -> Support:
    strides = [indices.step for indices in strided_slice.ranges(op)]
    if all(stride == 1 for stride in strides):
        return SUPPORTED
    return Unsupported("STRIDE", f"strides of {strides}", "1 on each axis", "place it on a CPU or GPU device")


CONCATENATION = NpuRule(tensors=_parts)
EXPAND_DIMS = NpuRule()
PAD = NpuRule((pad.Input.PADDINGS,))
RESHAPE = NpuRule((reshape.Input.SHAPE,))
SLICE = NpuRule((slicing.Input.BEGIN, slicing.Input.SIZE))
SPLIT = NpuRule()
SQUEEZE = NpuRule((squeeze.Input.AXES,))
STRIDED_SLICE = NpuRule(
    (strided_slice.Input.BEGIN, strided_slice.Input.END, strided_slice.Input.STRIDES), _strided_slice
)
