"""Rules that the convolutions share: tensors, their types and quantisation."""

from __future__ import annotations

from math import isclose

from nnhal.operations.context import OperationContext, Signature, channel_quant
from nnhal.operations.dimensions import product_of_scales
from nnhal.operations.operand_types import F16, F32, I32, Q8A, Q8AS, Q8C, QUANT8
from nnhal.operations.windows import Forms

INPUT = 0
FILTER = 1
BIAS = 2


def validate_convolution(op: Signature, forms: Forms, channel_dim: int, scale_constraint: bool = False) -> None:
    """Check the types of tensors and scalars. ``channel_dim`` is the filter's axis of output channels.

    With ``scale_constraint`` an output scale of at most input scale x filter scale needs feature level 3.
    """
    forms.validate(op)
    main = op.tensor(INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=4)
    filters = {main: 1, Q8C: 3} if main in QUANT8 else {main: 1}
    if op.tensor(FILTER, filters, rank=4) == Q8C:
        found = channel_quant(op.inputs[FILTER]).channel_dim
        if found != channel_dim:
            op.context.refuse(f"the filter's channel dimension is {found}, expected {channel_dim}")
    op.tensor(BIAS, {I32 if main in QUANT8 else main: 1}, rank=1)
    op.output(0, main, rank=4)
    if scale_constraint:
        note_scale_constraint(op)


def note_scale_constraint(op: Signature) -> None:
    """Note that an output scale of at most input scale x filter scale needs feature level 3."""
    if 0 < op.outputs[0].scale <= product_of_scales(op.inputs[INPUT], op.inputs[FILTER]):
        op.since(3)


def require_bias(op: OperationContext, channels: int) -> None:
    """Refuse a bias unless its length is the number of output channels and its scale that of the accumulator."""
    length = op.dimensions(BIAS)
    if length and length != (channels,) and (op.executing or length != (0,)):
        op.refuse(f"the bias has dimensions {list(length)}, expected [{channels}]")
    if op.main_type(INPUT) not in QUANT8:
        return
    expected = 0.0 if op.main_type(FILTER) == Q8C else product_of_scales(op.inputs[INPUT], op.inputs[FILTER])
    if not isclose(op.inputs[BIAS].scale, expected, rel_tol=1e-6):
        op.refuse(f"the bias has scale {op.inputs[BIAS].scale}, expected {expected}: input scale x filter scale")
