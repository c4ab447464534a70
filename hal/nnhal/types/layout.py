"""Layout of operands in memory: element types, sizes and dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnhal.types.enums import OperandType

ELEMENT_TYPES: dict[int, np.dtype[np.generic]] = {
    OperandType.FLOAT32: np.dtype(np.float32),
    OperandType.INT32: np.dtype(np.int32),
    OperandType.UINT32: np.dtype(np.uint32),
    OperandType.TENSOR_FLOAT32: np.dtype(np.float32),
    OperandType.TENSOR_INT32: np.dtype(np.int32),
    OperandType.TENSOR_QUANT8_ASYMM: np.dtype(np.uint8),
    OperandType.BOOL: np.dtype(np.uint8),
    OperandType.TENSOR_QUANT16_SYMM: np.dtype(np.int16),
    OperandType.TENSOR_FLOAT16: np.dtype(np.float16),
    OperandType.TENSOR_BOOL8: np.dtype(np.uint8),
    OperandType.FLOAT16: np.dtype(np.float16),
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL: np.dtype(np.int8),
    OperandType.TENSOR_QUANT16_ASYMM: np.dtype(np.uint16),
    OperandType.TENSOR_QUANT8_SYMM: np.dtype(np.int8),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: np.dtype(np.int8),
}
"""The numpy type of one element. Booleans are bytes, true unless 0. SUBGRAPH has no elements."""

SCALAR_TYPES = frozenset(
    {OperandType.FLOAT32, OperandType.INT32, OperandType.UINT32, OperandType.BOOL, OperandType.FLOAT16}
)
MAX_OPERAND_BYTES = 2**32 - 1
"""Bytes of an operand."""
MAX_RANK = 32
"""Axes of an operand. numpy has 64 at most, and some kernels need as many again."""
EXTENSION_BASE = 0x10000
"""Codes from here on belong to extensions."""

Dimensions = tuple[int, ...]


def is_extension(code: int) -> bool:
    return code >= EXTENSION_BASE


def is_scalar(code: int) -> bool:
    """Return whether an operand type of the base set is a scalar. Extension types and SUBGRAPH are not."""
    return code in SCALAR_TYPES


def fully_specified(code: int, dimensions: Dimensions) -> bool:
    """Return whether the size of an operand of the base set is known: a scalar, or all axes are known."""
    return is_scalar(code) or (len(dimensions) > 0 and 0 not in dimensions)


def byte_size(code: int, dimensions: Dimensions) -> int:
    """Return the bytes of an operand of the base set; 0 for SUBGRAPH and if a dimension is unknown."""
    element = ELEMENT_TYPES.get(code)
    if element is None or not fully_specified(code, dimensions):
        return 0
    return element.itemsize * prod(dimensions)


def combine(first: Dimensions, second: Dimensions) -> Dimensions | None:
    """Merge two partial descriptions of the same dimensions. Return None if they contradict each other.

    Empty dimensions say nothing. Otherwise the ranks must be equal, and each axis must be equal or 0 in one of them.
    """
    if not first or not second:
        return first or second
    if len(first) != len(second) or any(a and b and a != b for a, b in zip(first, second, strict=True)):
        return None
    return tuple(a or b for a, b in zip(first, second, strict=True))


def fits(dimensions: Dimensions, known: Dimensions) -> bool:
    """Return whether a result's dimensions agree with those that were known before. A 0 is a length of the result.

    A known 0 is an axis of unknown size. No known dimensions are those of a scalar.
    """
    return len(dimensions) == len(known) and [k and n for k, n in zip(known, dimensions, strict=True)] == list(known)


def describe(dimensions: Sequence[int]) -> str:
    """Format dimensions for messages: ``[1, 8, ?]``."""
    return "[" + ", ".join(str(d) if d else "?" for d in dimensions) + "]"
