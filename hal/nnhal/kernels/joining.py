"""Operations that join tensors, split them, and take parts of them."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.quantization import as_output
from nnhal.operations import OperationContext
from nnhal.operations.joining import (
    PackInput,
    SlicingInput,
    SplitInput,
    StridedSliceInput,
    axis_input,
    prepare_slicing,
    prepare_strided_slice,
    strided_ranges,
)


def concatenation(op: OperationContext) -> tuple[Array, ...]:
    """The tensors one after the other; those with another quantisation are requantised."""
    axis = axis_input(op)
    return (np.concatenate([as_output(op, index) for index in range(axis)], op.integer(axis)),)


def pack(op: OperationContext) -> tuple[Array, ...]:
    """The tensors along a new axis."""
    tensors = [op.value(index) for index in range(PackInput.FIRST, len(op.inputs))]
    return (np.stack(tensors, op.integer(PackInput.AXIS)),)


def split(op: OperationContext) -> tuple[Array, ...]:
    """Equal parts along the axis."""
    return tuple(np.split(op.value(SplitInput.INPUT), op.integer(SplitInput.NUM_SPLITS), op.integer(SplitInput.AXIS)))


def slice_(op: OperationContext) -> tuple[Array, ...]:
    begins, (sizes,) = op.integers(SlicingInput.BEGIN), prepare_slicing(op)
    box = tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))
    return (op.value(SlicingInput.INPUT)[box],)


def strided_slice(op: OperationContext) -> tuple[Array, ...]:
    """The elements at all combinations of the axes' indices."""
    return (op.value(StridedSliceInput.INPUT)[np.ix_(*strided_ranges(op))].reshape(prepare_strided_slice(op)[0]),)
