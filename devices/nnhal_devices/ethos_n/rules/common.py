"""Rules, and checks that several families share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nnhal.operations import OperationContext
from nnhal.types.layout import Dimensions
from nnhal_devices.driver import SUPPORTED, Support, Unsupported
from nnhal_devices.ethos_n.limits import LARGEST_RESCALING, MAX_RANK

Check = Callable[[OperationContext], Support]


def _anything(_: OperationContext) -> Support:
    return SUPPORTED


def _first_input(_: OperationContext) -> Sequence[int]:
    return (0,)


@dataclass(frozen=True, slots=True)
class NpuRule:
    """The conditions for one operation.

    ``tensors`` gives the inputs that are activations: of 8-bit types, and within the limits of tensors. ``constants``
    are inputs that must be constants; all scalars must be constants too. ``check`` is called if all of that holds.
    """

    constants: tuple[int, ...] = ()
    check: Check = _anything
    tensors: Callable[[OperationContext], Sequence[int]] = _first_input


def first_objection(answers: Iterable[Support]) -> Support:
    """The first refusal, if any. Answers after it are not evaluated."""
    return next((answer for answer in answers if isinstance(answer, Unsupported)), SUPPORTED)


def as_images(dimensions: Dimensions) -> tuple[int, int, int, int]:
    """Batch, height, width and channels of a tensor of up to 4 axes; missing axes are 1, in front."""
    batch, height, width, channels = (1,) * (MAX_RANK - len(dimensions)) + dimensions
    return batch, height, width, channels


def listed(numbers: Sequence[int]) -> str:
    """Numbers as people read them: ``1, 2 or 3``."""
    return f"{', '.join(str(number) for number in numbers[:-1])} or {numbers[-1]}"


def channels_last(channels_first: bool) -> Support:
    """Refuse images that have their channels first."""
    if not channels_first:
        return SUPPORTED
    hint = "export the network channels last, or transpose before and after"
    return Unsupported("SHAPE", "images of [batch, channels, height, width]", "channels last (NHWC)", hint)


def rescaled(op: OperationContext, *inputs: int) -> Support:
    """Refuse inputs whose scale is too large for requantisation to the output's."""
    for index in inputs:
        ratio = op.inputs[index].scale / op.outputs[0].scale
        if ratio > LARGEST_RESCALING:
            got = f"scale of input {index} / output scale = {ratio:.6g}"
            hint = "calibrate again: the output's range must not be so much smaller than the input's"
            return Unsupported("QUANT", got, f"at most {LARGEST_RESCALING:g}", hint)
    return SUPPORTED
