"""ADD and MUL: of two tensors of equal dimensions, or of a tensor and a constant, of one value or one per channel."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.operations.elementwise import BinaryInput
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import as_images, npu_rule
from nnhal.support.rules import first_objection
from nnhal.types.layout import describe
from nnhal_devices.ethos_n.rules._shared import rescaled
from nnhal_devices.ethos_n.rules.convolution import multiplier

_CONSTANT = "a constant of one value, or of one for each channel"


def _both(_: OperationContext) -> tuple[int, int]:
    return BinaryInput.FIRST, BinaryInput.SECOND


def _has_constant(op: OperationContext) -> bool:
    """Return whether one input is a constant of one value, or of one for each channel of the other."""
    for index in _both(op):
        *sides, depth = as_images(op.dimensions(index))
        if op.is_known(index) and sides == [1, 1, 1] and depth in (1, op.dimensions(1 - index)[-1]):
            return True
    return False


def _pair(op: OperationContext) -> str:
    return " and ".join(
        f"a {'constant' if op.is_known(index) else 'tensor'} of {describe(op.dimensions(index))}" for index in _both(op)
    )


def _add(op: OperationContext) -> Support:
    first, second = (as_images(op.dimensions(index)) for index in _both(op))
    if first == second or _has_constant(op):
        return rescaled(op, *_both(op))
    hint = "broadcast the smaller tensor when the network is exported"
    return Unsupported("SHAPE", _pair(op), f"equal dimensions, or {_CONSTANT}", hint)


def _mul(op: OperationContext) -> Support:
    """Check MUL as the depthwise convolution with filters of 1 x 1 that it becomes."""
    return first_objection((_one_constant(op), multiplier(op, BinaryInput.SECOND)))


def _one_constant(op: OperationContext) -> Support:
    if _has_constant(op):
        return SUPPORTED
    hint = "place it on a CPU or GPU device, or fold a constant factor into the convolution before"
    return Unsupported("CONSTANT", _pair(op), f"a tensor and {_CONSTANT}", hint)


ADD = npu_rule(check=_add, tensors=_both)
MUL = npu_rule(check=_mul, tensors=_both)
