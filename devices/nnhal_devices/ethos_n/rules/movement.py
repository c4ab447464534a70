"""CONCATENATION, SPLIT and TRANSPOSE: they only move bytes, in whole granules of channels."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations._shape import axis_of
from nnhal.operations.joining import SplitInput, axis_input, prepare_split
from nnhal.operations.movement import TransposeInput
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import NpuRule, first_objection
from nnhal_devices.ethos_n.limits import GRANULE
from nnhal_devices.ethos_n.rules.rescaling import rescaled

_PAD = f"pad the channels to a multiple of {GRANULE} with filters of zeros"


def _parts(op: OperationContext) -> Sequence[int]:
    return range(axis_input(op))


def _concatenation(op: OperationContext) -> Support:
    parts = _parts(op)
    tensors = [op.dimensions(index) for index in parts]
    lengths = [dimensions[-1] for dimensions in tensors]
    along_channels = op.integer(axis_input(op)) == len(tensors[0]) - 1
    return first_objection((_granules(lengths, along_channels), rescaled(op, *parts)))


def _split(op: OperationContext) -> Support:
    rank = len(op.dimensions(SplitInput.INPUT))
    along_channels = axis_of(op, op.integer(SplitInput.AXIS), rank) == rank - 1
    lengths = [dimensions[-1] for dimensions in prepare_split(op)]
    return _granules(lengths, along_channels)


def _granules(lengths: Sequence[int], along_channels: bool) -> Support:
    if not along_channels or len(lengths) == 1 or all(length % GRANULE == 0 for length in lengths):
        return SUPPORTED
    odd = next(length for length in lengths if length % GRANULE)
    return Unsupported("SHAPE", f"a part of {odd} channels", f"multiples of {GRANULE} along the channels", _PAD)


CONCATENATION = NpuRule(check=_concatenation, tensors=_parts)
SPLIT = NpuRule(check=_split)
TRANSPOSE = NpuRule((TransposeInput.PERMUTATION,))
