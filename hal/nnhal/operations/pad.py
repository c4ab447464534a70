"""PAD and PAD_V2: a tensor with a border, of the logical zero or of a given value."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS, QUANT8, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs. PAD has no value."""

    INPUT = 0
    """Rank 1 to 4."""
    PADDINGS = 1
    """[rank, 2]: before and after each axis."""
    VALUE = 2
    """A scalar; of a quantised tensor INT32, quantised as the tensor is."""


def validate_pad(op: Signature) -> None:
    """Require a tensor of rank 1 to 4. A zero point other than 0 needs feature level 3."""
    op.count(2, names=Input)
    _tensors(op)
    if op.inputs[Input.INPUT].type == Q8A and op.inputs[Input.INPUT].zero_point:
        op.since(3)


def validate_pad_v2(op: Signature) -> None:
    """Require a tensor of rank 1 to 4 and a value, which is quantised if the tensor is."""
    op.count(3, names=Input)
    _tensors(op)
    main = op.context.main_type()
    op.scalar(Input.VALUE, INT32 if main in QUANT8 else scalar_float(main))


def _tensors(op: Signature) -> None:
    main = op.tensor(Input.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    op.tensor(Input.PADDINGS, {I32: 1}, rank=2)
    op.output(0, main, rank=(1, 4))


def paddings_of(op: OperationContext) -> tuple[tuple[int, int], ...]:
    """Return the elements to pad before and after each axis. Raises UnknownYet."""
    rank = len(op.ranked(Input.INPUT, (1, 4)))
    values = op.value(Input.PADDINGS)
    if values.shape != (rank, 2):
        op.refuse(f"the paddings have dimensions {list(values.shape)}, expected [{rank}, 2]")
    if values.min() < 0:
        op.refuse(f"paddings {values.tolist()}, expected 0 or more")
    return tuple((int(before), int(after)) for before, after in values)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions, each with its paddings added."""
    if op.main_type() in QUANT8:
        require_input_quantization(op)
        _require_representable_value(op)
    return (
        tuple(
            length + before + after if length or op.executing else 0
            for length, (before, after) in zip(op.ranked(Input.INPUT, (1, 4)), paddings_of(op), strict=True)
        ),
    )


def _require_representable_value(op: OperationContext) -> None:
    if not op.is_known(Input.VALUE):
        return
    low, high = (0, 255) if op.main_type() == Q8A else (-128, 127)
    if not low <= op.integer(Input.VALUE) <= high:
        op.refuse(f"the value is {op.integer(Input.VALUE)}, expected {low} to {high}")


PAD = OperationDefinition(OperationType.PAD, 2, validate_pad, prepare)
PAD_V2 = OperationDefinition(OperationType.PAD_V2, 3, validate_pad_v2, prepare)
