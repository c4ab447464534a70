"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR: by powers of two."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from nnhal.operations import OperationContext
from nnhal.operations.resize import ResizeInput, prepare_resize
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import channels_last, listed, npu_rule
from nnhal.support.rules import first_objection
from nnhal_cascade.rules.limits import RESIZE_FACTORS

_HINT = "resize by 2, several times for larger factors"
_CENTRED_FACTOR = 2


def _nearest(op: OperationContext) -> Support:
    return first_objection(_objections(op))


def _bilinear(op: OperationContext) -> Support:
    return first_objection((*_objections(op), _centred(op)))


def _objections(op: OperationContext) -> Iterator[Support]:
    first = op.boolean(ResizeInput.LAYOUT)
    yield channels_last(first)
    if not first:
        yield _factors(op)


def _factors(op: OperationContext) -> Support:
    given, made = _sides(op)
    if given in ((1, 1), made):
        return SUPPORTED
    corners = op.boolean(ResizeInput.ALIGN_CORNERS)
    factors = [_factor(*each, corners) for each in zip(given, made, strict=True)]
    if all(factor in RESIZE_FACTORS for factor in factors) and (
        factors[0] == factors[1] or any(a == b == 1 for a, b in zip(given, factors, strict=True))
    ):
        return SUPPORTED
    allowed = f"the same factor of {listed(RESIZE_FACTORS)} for height and width"
    if corners:
        allowed += ", both less 1"
    return Unsupported("SHAPE", _resized(op), allowed, _HINT)


def _factor(given: int, made: int, corners: bool) -> Fraction:
    """The ratio of two lengths, or of what lies between their outer elements."""
    if corners:
        return Fraction(made - 1, given - 1) if given > 1 else Fraction(1)
    return Fraction(made, given)


def _centred(op: OperationContext) -> Support:
    given, made = _sides(op)
    if not op.boolean(ResizeInput.HALF_PIXEL_CENTERS) or given == (1, 1):
        return SUPPORTED
    if made == tuple(_CENTRED_FACTOR * length for length in given):
        return SUPPORTED
    allowed = f"{_CENTRED_FACTOR} times the height and width, if half_pixel_centers is true"
    return Unsupported("SHAPE", _resized(op), allowed, _HINT)


def _sides(op: OperationContext) -> tuple[tuple[int, int], tuple[int, int]]:
    """The height and width before and after."""
    (_, height, width, _), (_, high, wide, _) = op.dimensions(ResizeInput.INPUT), prepare_resize(op)[0]
    return (height, width), (high, wide)


def _resized(op: OperationContext) -> str:
    (height, width), (high, wide) = _sides(op)
    return f"{height} x {width} resized to {high} x {wide}"


NEAREST = npu_rule(check=_nearest)
BILINEAR = npu_rule(check=_bilinear)
