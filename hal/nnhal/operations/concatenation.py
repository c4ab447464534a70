"""CONCATENATION: tensors joined along an axis."""

from __future__ import annotations

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import F16, F32, INT32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, combine, describe


def axis_input(op: OperationContext) -> int:
    """Return the index of the axis input: the last one. All inputs before it are tensors."""
    return len(op.inputs) - 1


def validate(op: Signature) -> None:
    """Require one tensor or more, all of one type. A quantisation other than the output's needs feature level 3."""
    if len(op.inputs) < 2:
        op.context.refuse(f"got {len(op.inputs)} inputs, expected at least 2: tensors and an axis")
    axis = axis_input(op.context)
    op.count(axis + 1)
    main = op.tensor(0, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    for index in range(1, axis):
        op.same(index, 0, rank=(1, 4))
    op.scalar(axis, INT32)
    output = op.outputs[0]
    op.output(0, main, rank=(1, 4))
    if any((o.scale, o.zero_point) != (output.scale, output.zero_point) for o in op.inputs[:axis]):
        op.since(3)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the tensors' common dimensions, with the lengths along the axis added up."""
    count = axis_input(op)
    tensors = [op.ranked(index, (1, 4)) for index in range(count)]
    axis = op.integer(count)
    if not 0 <= axis < len(tensors[0]):
        op.refuse(f"axis {axis}, expected 0 to {len(tensors[0]) - 1}")
    common = tensors[0]
    for dimensions in tensors:
        others = _with_length(dimensions, axis, common[axis]) if len(dimensions) == len(common) else dimensions
        merged = combine(common, others)
        if merged is None or (op.executing and common != others):
            op.refuse(
                f"inputs of {describe(tensors[0])} and {describe(dimensions)}, expected equal dimensions except along "
                f"axis {axis}"
            )
        else:
            common = merged
    lengths = [dimensions[axis] for dimensions in tensors]
    unknown = 0 in lengths and not op.executing
    return (_with_length(common, axis, 0 if unknown else sum(lengths)),)


def _with_length(dimensions: Dimensions, axis: int, length: int) -> Dimensions:
    return (*dimensions[:axis], length, *dimensions[axis + 1 :])


CONCATENATION = OperationDefinition(OperationType.CONCATENATION, 1, validate, prepare)
