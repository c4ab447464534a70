"""Short names of the operand types."""

from __future__ import annotations

from nnhal.types import OperandType

F32 = OperandType.TENSOR_FLOAT32
F16 = OperandType.TENSOR_FLOAT16
I32 = OperandType.TENSOR_INT32
B8 = OperandType.TENSOR_BOOL8
Q8A = OperandType.TENSOR_QUANT8_ASYMM
Q8AS = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
Q8S = OperandType.TENSOR_QUANT8_SYMM
Q8C = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
Q16A = OperandType.TENSOR_QUANT16_ASYMM
Q16S = OperandType.TENSOR_QUANT16_SYMM

INT32 = OperandType.INT32
BOOL = OperandType.BOOL
FLOAT32 = OperandType.FLOAT32
FLOAT16 = OperandType.FLOAT16

FLOATS = frozenset({F32, F16})
QUANT8 = frozenset({Q8A, Q8AS})


def scalar_float(main: int) -> OperandType:
    """Return the type of a float parameter: FLOAT16 if the main tensor is F16, otherwise FLOAT32."""
    return FLOAT16 if main == F16 else FLOAT32
