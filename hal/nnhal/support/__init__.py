"""Operations that a device takes, and its reasons to refuse one: devices, the framework and compilers say it so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nnhal.types import OperandType, OperationType


class Supported(NamedTuple):
    """The device supports an operation as given."""


class Unsupported(NamedTuple):
    """The device does not support an operation, and why.

    ``code`` is stable: OP, DTYPE, RANK, SHAPE, KERNEL, STRIDE, ACTIVATION, QUANT, CONSTANT, DYN_SHAPE, NO_IMPL,
    LAYOUT (images with channels first: the framework then asks about the model with channels last, too),
    REVERTED (the operation would be supported, but those around it make it not worth the hand-over).
    """

    code: str
    got: str
    allowed: str
    hint: str = ""


Support = Supported | Unsupported
SUPPORTED = Supported()
MORE = "conditions of its own, which a refusal names"
"""The description of conditions that are code instead of a table."""


@dataclass(frozen=True, slots=True)
class OperationLimit:
    """Limit of a device for an operation."""

    operation: OperationType

    conditions: str = ""
    """In a sentence; empty if there are none."""


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
