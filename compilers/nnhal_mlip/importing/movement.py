"""Operations that compute nothing: CAST, CONCATENATION, PAD, TRANSPOSE, and other dimensions for the same elements."""

from __future__ import annotations

from nnhal.operations._shape import axis_of
from nnhal.operations._types import QUANT8
from nnhal.operations.joining import axis_input
from nnhal.operations.movement import PadInput, TransposeInput, paddings_of_pad, permutation
from nnhal.operations.shape import SqueezeInput
from nnhal_mlip.flow.graph.flow_graph import Attribute
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_operation import HalOperation


def emit_cast(op: HalOperation) -> str:
    """Return the input of a CAST between floats: the accelerator holds both types as float16."""
    return op.tensor(0)


def emit_concatenation(op: HalOperation) -> str:
    """Add the node of a CONCATENATION."""
    count = axis_input(op.context)
    tensors = [op.tensor(position) for position in range(count)]
    return op.add(Operator.CONCATENATE, tensors, {"axis": op.context.integer(count)})


def emit_pad(op: HalOperation) -> str:
    """Add the node of a PAD or PAD_V2."""
    widths = tuple(width for pair in paddings_of_pad(op.context) for width in pair)
    attributes: dict[str, Attribute] = {"pad_width": widths, "pad_value": _padding_value(op), "pad_mode": "constant"}
    return op.add(Operator.PAD, [op.tensor(PadInput.INPUT)], attributes)


def emit_reshape(op: HalOperation) -> str:
    """Add the node of a RESHAPE, or of an EXPAND_DIMS."""
    return op.add(Operator.RESHAPE, [op.tensor(0)], {"newshape": op.output.shape})


def emit_squeeze(op: HalOperation) -> str:
    """Add the node of a SQUEEZE: a reshape if no axis goes, or all of them would."""
    given = op.context.dimensions(SqueezeInput.INPUT)
    if op.context.has(SqueezeInput.AXES):
        named = op.context.integers(SqueezeInput.AXES)
        axes = tuple(sorted({axis_of(op.context, axis, len(given)) for axis in named}))
    else:
        axes = tuple(axis for axis, length in enumerate(given) if length == 1)
    if len(given) - len(axes) != len(op.output.shape) or not axes:
        return emit_reshape(op)
    return op.add(Operator.SQUEEZE, [op.tensor(SqueezeInput.INPUT)], {"axis": axes})


def emit_transpose(op: HalOperation) -> str:
    """Add the node of a TRANSPOSE."""
    axes = permutation(op.context)
    return op.add(Operator.TRANSPOSE, [op.tensor(TransposeInput.INPUT)], {"axes": axes})


def _padding_value(op: HalOperation) -> float:
    """The real number that a tensor is padded with."""
    context = op.context
    if len(context.inputs) <= PadInput.VALUE:
        return 0.0
    value, given = float(context.value(PadInput.VALUE)), context.inputs[PadInput.INPUT]
    return (value - given.zero_point) * given.scale if given.type in QUANT8 else value
