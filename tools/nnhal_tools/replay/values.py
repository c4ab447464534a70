"""Values of a replay beside those of its recording, by the rules of conformance tests."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Bytes
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_tools.conformance.compare import mismatch
from nnhal_tools.conformance.tolerances import tolerance_of
from nnhal_tools.conformance.vectors import Expectation

_BYTES = np.dtype(np.uint8)


def is_half(model: Model) -> bool:
    """Whether float32 may be computed with the precision of float16, as conformance tests have it."""
    halves = any(operand.type == OperandType.TENSOR_FLOAT16 for operand in model.main.operands)
    return halves or model.relax_computation_float32_to_float16


def is_random(model: Model) -> bool:
    """Whether outputs are drawn: other runs may have other values."""
    return any(
        operation.type == OperationType.RANDOM_MULTINOMIAL
        for graph in (model.main, *model.referenced)
        for operation in graph.operations
    )


def difference_of(operand: Operand, half: bool, recorded: bytes, got: Bytes) -> str:
    """Return what is wrong with the value of an operand; empty if nothing is. Bytes of extensions must be equal."""
    element = ELEMENT_TYPES.get(operand.type, _BYTES)
    absolute, relative = tolerance_of(operand.type, half) if operand.type in ELEMENT_TYPES else (0.0, 0.0)
    wanted = np.frombuffer(recorded[: len(recorded) - len(recorded) % element.itemsize], element)
    found = got[: len(got) - len(got) % element.itemsize].view(element)
    if len(found) != len(wanted):
        return f"{len(got)} bytes, recorded {len(recorded)}"
    return mismatch(Expectation(wanted, True, absolute, relative), found, wanted.shape)
