"""SLICE."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.slicing import Input, prepare


def slice_box(op: OperationContext) -> tuple[Array, ...]:
    """The elements of a box."""
    begins, (sizes,) = op.integers(Input.BEGIN), prepare(op)
    box = tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))
    return (op.value(Input.INPUT)[box],)
