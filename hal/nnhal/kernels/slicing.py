"""SLICE."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.joining import SlicingInput, prepare_slicing


def slice_box(op: OperationContext) -> tuple[Array, ...]:
    """The elements of a box."""
    begins, (sizes,) = op.integers(SlicingInput.BEGIN), prepare_slicing(op)
    box = tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))
    return (op.value(SlicingInput.INPUT)[box],)
