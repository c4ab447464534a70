from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import Operand, OperandType, OperationType
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random, single


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("operation", [OperationType.RELU, OperationType.RELU1, OperationType.RELU6])
def test_clamping(operation: OperationType, code: OperandType) -> None:
    assert_single_agrees(operation, code, [(2, 200)])


@pytest.mark.parametrize(
    "operation", [OperationType.ABS, OperationType.EXP, OperationType.NEG, OperationType.SIN, OperationType.FLOOR]
)
def test_functions_of_any_real(operation: OperationType) -> None:
    assert_single_agrees(operation, F32, [(3, 4, 2, 2)])


@pytest.mark.parametrize("code", [F32, F16])
@pytest.mark.parametrize("operation", [OperationType.LOG, OperationType.SQRT, OperationType.RSQRT])
def test_functions_of_positive_reals(operation: OperationType, code: OperandType) -> None:
    assert_agrees(single(operation, code, [(3, 4)]), np.abs(random(code, (3, 4))) + code.real)


@pytest.mark.parametrize("operation", [OperationType.ABS, OperationType.NEG])
def test_signs_of_integers(operation: OperationType) -> None:
    assert_single_agrees(operation, I32, [(3, 4)])


def test_negation_of_truth() -> None:
    assert_single_agrees(OperationType.LOGICAL_NOT, B8, [(3, 4)])


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
def test_hard_swish(code: OperandType) -> None:
    assert_single_agrees(OperationType.HARD_SWISH, code, [(2, 200)])


@pytest.mark.parametrize("code", [F32, F16])
def test_elu(code: OperandType) -> None:
    assert_single_agrees(OperationType.ELU, code, [(2, 20)], [0.75])


@pytest.mark.parametrize(
    ("operation", "code", "scale", "zero_point"),
    [
        (OperationType.LOGISTIC, F32, 0.0, 0),
        (OperationType.LOGISTIC, Q8A, 1 / 256, 0),
        (OperationType.LOGISTIC, Q8AS, 1 / 256, -128),
        (OperationType.TANH, F16, 0.0, 0),
        (OperationType.TANH, Q8A, 1 / 128, 128),
        (OperationType.TANH, Q8AS, 1 / 128, 0),
    ],
)
def test_curves_into_a_fixed_range(operation: OperationType, code: OperandType, scale: float, zero_point: int) -> None:
    model = single(operation, code, [(256,)], [], Operand(code, (), scale, zero_point))
    values = random(code, (256,)) if like(code).scale == 0 else np.arange(256).astype(np.uint8).view(np.int8)
    assert_agrees(model, values.view(np.uint8) if code == Q8A else values)
