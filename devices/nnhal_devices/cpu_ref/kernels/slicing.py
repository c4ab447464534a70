"""SLICE."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.operations.slicing import Input, prepare
from nnhal_devices.cpu_ref.kernels._types import Array


def slice_box(op: OperationContext) -> tuple[Array, ...]:
    """The elements of a box."""
    begins, (sizes,) = op.integers(Input.BEGIN), prepare(op)
    box = tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))
    return (op.value(Input.INPUT)[box],)
