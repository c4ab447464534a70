"""Rules for single operations, and checks that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nnhal.operations import OperationContext
from nnhal.types.layout import Dimensions, describe
from nnhal_devices.driver import SUPPORTED, Support, Unsupported

MAX_RANK = 4

Check = Callable[[OperationContext], Support]


def anything(_: OperationContext) -> Support:
    """Support an operation without further conditions."""
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
    check: Check = anything
    tensors: Callable[[OperationContext], Sequence[int]] = _first_input


def first_objection(answers: Iterable[Support]) -> Support:
    """The first refusal, if any. Answers after it are not evaluated."""
    return next((answer for answer in answers if isinstance(answer, Unsupported)), SUPPORTED)


def as_images(dimensions: Dimensions) -> tuple[int, int, int, int]:
    """Batch, height, width and channels of a tensor of up to 4 axes; missing axes are 1, in front."""
    batch, height, width, channels = (1,) * (MAX_RANK - len(dimensions)) + dimensions
    return batch, height, width, channels


def known_dimensions(name: str, dimensions: Dimensions, hint: str) -> Support:
    """Refuse a tensor of which a dimension is unknown. ``name`` says which, ``hint`` why they must be known."""
    if dimensions and 0 not in dimensions:
        return SUPPORTED
    got = f"{name} of {describe(dimensions) if dimensions else 'unknown rank'}"
    return Unsupported("DYN_SHAPE", got, "dimensions that are known beforehand", hint)


def allowed_rank(name: str, dimensions: Dimensions) -> Support:
    """Refuse a tensor of more axes than an NPU has."""
    if len(dimensions) <= MAX_RANK:
        return SUPPORTED
    hint = "fold axes together with RESHAPE"
    return Unsupported("RANK", f"{name} of rank {len(dimensions)}", f"rank 1 to {MAX_RANK}", hint)


def listed(numbers: Sequence[int]) -> str:
    """Numbers as people read them: ``1, 2 or 3``."""
    return f"{', '.join(str(number) for number in numbers[:-1])} or {numbers[-1]}"


def channels_last(channels_first: bool) -> Support:
    """Refuse images that have their channels first."""
    if not channels_first:
        return SUPPORTED
    hint = "the framework lays them out so if that takes less time; other clients transpose before and after"
    return Unsupported("LAYOUT", "images of [batch, channels, height, width]", "channels last (NHWC)", hint)
