"""How far an output may be from what is expected."""

from __future__ import annotations

from nnhal.types import OperandType

_HALF = (5 * 2.0**-10, 5 * 2.0**-10)
_FLOAT = (1e-5, 5 * 2.0**-23)


def tolerance_of(code: int, half: bool) -> tuple[float, float]:
    """Return the absolute and the relative tolerance of an operand type, in its own numbers.

    ``half`` says whether floats of 32 bits may be computed with the precision of float16.
    """
    if code in (OperandType.TENSOR_FLOAT16, OperandType.FLOAT16):
        return _HALF
    if code in (OperandType.TENSOR_FLOAT32, OperandType.FLOAT32):
        return _HALF if half else _FLOAT
    return (0.0, 0.0) if code in (OperandType.TENSOR_BOOL8, OperandType.BOOL) else (1.0, 0.0)
