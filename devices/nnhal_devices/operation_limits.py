"""Saying in a sentence what a device takes of an operation, from the table by which it decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnhal.types import OperandType, OperationType
from nnhal_devices.figures import OperationLimit

MORE = "conditions of its own, which a refusal names"
"""What is said of conditions that are code, and no table."""


def limit_of(operation: int, *conditions: str) -> OperationLimit:
    """Return what is said of an operation; empty conditions are left out."""
    return OperationLimit(OperationType(operation), "; ".join(condition for condition in conditions if condition))


def constants_of(positions: Sequence[int]) -> str:
    """Say which inputs must be constants beside all scalars: ``scalars and inputs 1 and 2 constant``."""
    if not positions:
        return "scalars constant"
    *before, last = sorted(set(positions))
    numbers = f"inputs {', '.join(map(str, before))} and {last}" if before else f"input {last}"
    return f"scalars and {numbers} constant"


def types_of(codes: Iterable[OperandType]) -> str:
    """Say which types of operands are allowed: ``TENSOR_FLOAT16 or TENSOR_FLOAT32``."""
    *before, last = sorted(code.name for code in codes)
    return f"{', '.join(before)} or {last}" if before else last
