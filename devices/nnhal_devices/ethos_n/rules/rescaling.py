"""Scales between which the NPU can requantise."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal_devices.ethos_n.limits import LARGEST_RESCALING


def rescaled(op: OperationContext, *inputs: int) -> Support:
    """Refuse inputs whose scale is too large for requantisation to the output's."""
    for index in inputs:
        ratio = op.inputs[index].scale / op.outputs[0].scale
        if ratio > LARGEST_RESCALING:
            got = f"scale of input {index} / output scale = {ratio:.6g}"
            hint = "calibrate again: the output's range must not be so much smaller than the input's"
            return Unsupported("QUANT", got, f"at most {LARGEST_RESCALING:g}", hint)
    return SUPPORTED
