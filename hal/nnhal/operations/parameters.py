"""Checks of scalar parameters."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext


def require_at_least(op: OperationContext, what: str, value: int, least: int) -> int:
    """Refuse a parameter below ``least``, and return it otherwise."""
    if value < least:
        op.refuse(f"{what} is {value}, expected {least} or more")
    return value


def require_indices(op: OperationContext, index: IntEnum, length: int) -> None:
    """Refuse an input with an index outside an axis, as far as both are known."""
    if not op.is_known(index) or not (length or op.executing):
        return
    indices = op.value(index)
    outside = indices[(indices < 0) | (indices >= length)]
    if outside.size:
        op.refuse(f"{index.name.lower()}: index {outside[0]}, expected one in [0, {length})")


def require_positive(op: OperationContext, what: str, value: float) -> float:
    """Refuse a real parameter that is not finite and above 0, and return it otherwise."""
    if not 0 < value < float("inf"):
        op.refuse(f"{what} is {value}, expected a finite number above 0")
    return value
