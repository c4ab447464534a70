"""Parts of a model that is still being built."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nnhal.types import Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal.validation import validate_draft
from tests.support.refusals import INVALID, refusal

_VECTOR = Operand(OperandType.TENSOR_FLOAT32, (8,))
_NUMBER = Operand(OperandType.INT32, lifetime=OperandLifeTime.CONSTANT_COPY)
_ADD = Operation(OperationType.ADD, (0, 1, 2), (3,))


def _draft(*operands: Operand, operation: Operation | None = None) -> Model:
    return Model(Subgraph(operands, () if operation is None else (operation,), (), ()))


def test_neither_places_of_values_nor_writers_are_asked_for() -> None:
    validate_draft(_draft(_VECTOR))
    validate_draft(_draft(_VECTOR, _VECTOR, _NUMBER, _VECTOR, operation=_ADD))


_SCALED = replace(_VECTOR, scale=0.5)


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (_draft(_SCALED), "operand 0 (TENSOR_FLOAT32) has scale 0.5, expected 0"),
        (_draft(replace(_NUMBER, dimensions=(2,))), "operand 0 is a INT32 with dimensions [2], expected none"),
        (
            _draft(_VECTOR, _VECTOR, _NUMBER, replace(_VECTOR, type=OperandType.TENSOR_INT32), operation=_ADD),
            "ADD",
        ),
        (_draft(_VECTOR, operation=_ADD), "operation 0 names operand 1, expected 0 to 0"),
        (_draft(_VECTOR, operation=replace(_ADD, type=999)), "operation 0 has type 999, expected 0 to 105"),
    ],
)
def test_operands_and_operations_are_checked_alone(draft: Model, message: str) -> None:
    refusal(lambda: validate_draft(draft), INVALID, re.escape(message))
