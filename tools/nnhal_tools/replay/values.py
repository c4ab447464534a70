"""Values of a replay beside those of its recording, by the rules of conformance tests."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Bytes
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_tools.conformance.compare import mismatch
from nnhal_tools.conformance.tolerances import tolerance_of
from nnhal_tools.conformance.vectors import Expectation
from nnhal_tools.element_types import number_type_of

_BYTES = np.dtype(np.uint8)
_FLOATS, _NUMBERS = "f", "fiu"
_HALF_BYTES = 2


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


def difference_of(model: Model, operand: Operand, recorded: bytes, got: Bytes) -> str:
    """Return what is wrong with the value of an operand; empty if nothing is."""
    element, absolute, relative = _rule(model, operand.type)
    wanted = np.frombuffer(recorded[: len(recorded) - len(recorded) % element.itemsize], element)
    found = got[: len(got) - len(got) % element.itemsize].view(element)
    if len(found) != len(wanted):
        return f"{len(got)} bytes, recorded {len(recorded)}"
    return mismatch(Expectation(wanted, True, absolute, relative), found, wanted.shape)


def _rule(model: Model, code: int) -> tuple[np.dtype[np.generic], float, float]:
    """The elements of a type, and how far they may be apart. Of extensions, floats may as those of the HAL may."""
    half = is_half(model)
    if code in ELEMENT_TYPES:
        return ELEMENT_TYPES[code], *tolerance_of(code, half)
    element = number_type_of(model, code)
    if element is None or element.kind not in _NUMBERS:
        return _BYTES, 0.0, 0.0
    if element.kind != _FLOATS:
        return element, 0.0, 0.0
    like = OperandType.TENSOR_FLOAT16 if element.itemsize == _HALF_BYTES else OperandType.TENSOR_FLOAT32
    return element, *tolerance_of(like, half)
