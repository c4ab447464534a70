"""STRIDED_SLICE: elements of each axis from a begin towards an end in strides, which may be negative.

Bit i of a mask concerns axis i. Begin and end masks replace the bound by the respective end of the axis. The shrink
mask removes an axis of which one element remains.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import integers_per_axis, require_input_quantization
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""
    BEGIN = 1
    """[rank]; below 0 from the end."""
    END = 2
    """[rank]; below 0 from the end."""
    STRIDES = 3
    """[rank], none of them 0."""
    BEGIN_MASK = 4
    """Bit n: axis n begins at its first element."""
    END_MASK = 5
    """Bit n: axis n ends at its last element."""
    SHRINK_MASK = 6
    """Bit n: axis n keeps one element, and is removed."""


def validate(op: Signature) -> None:
    """Require a tensor of rank up to 4, three numbers for each of its axes, and three masks."""
    op.count(7, names=Input)
    main = op.tensor(Input.INPUT, {F32: 2, Q8A: 2, F16: 3, Q8AS: 4}, rank=(1, 4))
    for index in (Input.BEGIN, Input.END, Input.STRIDES):
        op.tensor(index, {I32: 1}, rank=1)
    for index in (Input.BEGIN_MASK, Input.END_MASK, Input.SHRINK_MASK):
        op.scalar(index, INT32)
    op.output(0, main)


def ranges(op: OperationContext) -> tuple[range, ...]:
    """Return the indices to keep of each axis of the input. Negative bounds count from the end; all are clamped."""
    op.ranked(Input.INPUT, (1, 4))
    begins, ends, strides = (
        integers_per_axis(op, index, Input.INPUT) for index in (Input.BEGIN, Input.END, Input.STRIDES)
    )
    begin_mask, end_mask = op.integer(Input.BEGIN_MASK), op.integer(Input.END_MASK)
    result = []
    for axis, length in enumerate(op.known_dimensions(Input.INPUT)):
        if strides[axis] == 0:
            op.refuse(f"stride 0 on axis {axis}, expected a stride other than 0")
        begin = None if begin_mask >> axis & 1 else begins[axis]
        end = None if end_mask >> axis & 1 else ends[axis]
        result.append(range(*slice(begin, end, strides[axis]).indices(length)))
    return tuple(result)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return how many elements of each axis remain. Shrunk axes are removed, but at least one axis remains."""
    require_input_quantization(op)
    shrink_mask = op.integer(Input.SHRINK_MASK)
    result = []
    for axis, indices in enumerate(ranges(op)):
        if not shrink_mask >> axis & 1:
            result.append(len(indices))
        elif len(indices) != 1 or indices.step < 0:
            op.refuse(
                f"axis {axis} is shrunk and keeps {len(indices)} elements with stride {indices.step}, "
                "expected 1 element and a stride above 0"
            )
    return (tuple(result) or (1,),)


STRIDED_SLICE = OperationDefinition(OperationType.STRIDED_SLICE, 2, validate, prepare)
