"""Conditions that several operations share: on scales, and on windows."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.operations.windows import Window
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal_devices.ethos_n.limits import LARGEST_MEAN, LARGEST_RESCALING


def rescaled(op: OperationContext, *inputs: int) -> Support:
    """Refuse inputs whose scale is too large for requantisation to the output's."""
    for index in inputs:
        ratio = op.inputs[index].scale / op.outputs[0].scale
        if ratio > LARGEST_RESCALING:
            got = f"scale of input {index} / output scale = {ratio:.6g}"
            hint = "calibrate again: the output's range must not be so much smaller than the input's"
            return Unsupported("QUANT", got, f"at most {LARGEST_RESCALING:g}", hint)
    return SUPPORTED


def is_whole(window: Window, sides: Sequence[int]) -> bool:
    """Return whether one small window without padding covers the whole image, of a height and a width."""
    axes = window.height, window.width
    return max(sides) <= LARGEST_MEAN and all(
        axis.size == side and not axis.before and not axis.after for axis, side in zip(axes, sides, strict=True)
    )
