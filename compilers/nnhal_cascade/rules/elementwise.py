"""Operations of two tensors, and SOFTMAX."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.operations.activation import SoftmaxInput
from nnhal.operations.dimensions import axis_of
from nnhal.operations.elementwise import BinaryInput
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import as_images, npu_rule
from nnhal.support.rules import first_objection
from nnhal_cascade.rules.limits import MAX_EXTENT


def _both(_: OperationContext) -> tuple[int, int]:
    return BinaryInput.FIRST, BinaryInput.SECOND


def _comparable(op: OperationContext) -> Support:
    """Refuse inputs whose quantisation is not the output's: the NPU compares them as they are."""
    wanted = op.outputs[0].scale, op.outputs[0].zero_point
    for index in _both(op):
        given = op.inputs[index].scale, op.inputs[index].zero_point
        if given != wanted:
            got = f"input {index} of scale and zero point {given}"
            hint = "quantise both inputs and the output alike"
            return Unsupported("QUANT", got, f"those of the output, {wanted}", hint)
    return SUPPORTED


def _softmax(op: OperationContext) -> Support:
    return first_objection((_last_axis(op), _sums(op)))


def _last_axis(op: OperationContext) -> Support:
    rank = len(op.dimensions(SoftmaxInput.INPUT))
    axis = axis_of(op, op.integer(SoftmaxInput.AXIS, default=-1), rank)
    if axis == rank - 1:
        return SUPPORTED
    hint = "transpose before and after on a CPU device"
    return Unsupported("KERNEL", f"axis {axis} of {rank}", f"axis {rank - 1}: the channels", hint)


def _sums(op: OperationContext) -> Support:
    _, height, width, _ = as_images(op.dimensions(SoftmaxInput.INPUT))
    if height * width <= MAX_EXTENT:
        return SUPPORTED
    got = f"{height} x {width} sums of exponentials"
    return Unsupported("SHAPE", got, f"at most {MAX_EXTENT}", "split the tensor along its height or width")


BATCH_MATMUL = npu_rule(tensors=_both)
ARITHMETIC = npu_rule(tensors=_both)
EXTREMUM = npu_rule(check=_comparable, tensors=_both)
PRELU = npu_rule(tensors=_both)
SOFTMAX = npu_rule(check=_softmax)
