from __future__ import annotations

import numpy as np
import pytest

from nnhal.types import Operand, OperandType
from nnhal_tools.distance.figures import Distance, Figures
from nnhal_tools.distance.limits import Limits

FLOAT, INT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM_SIGNED


def figures(code: int, got: list[float], wanted: list[float]) -> Figures:
    element = np.int8 if code == INT8 else np.float32
    distance = Distance(Operand(code, (len(got),), 0.5 if code == INT8 else 0.0))
    distance.add(np.array(got, element), np.array(wanted, element))
    return distance.figures


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(max_ulp=2), "3 steps, allowed 2"),
        (Limits(min_sqnr=20), "SQNR: 10.5 dB, at least 20 dB allowed"),
        (Limits(max_error=1.0), "largest error 1.5, allowed 1"),
        (Limits(min_cosine=0.9999), "cosine 0.957826, at least 0.9999 allowed"),
    ],
)
def test_a_limit_that_is_exceeded_says_what_was_got(limits: Limits, words: str) -> None:
    assert limits.given
    assert limits.exceeded(figures(INT8, [3, 10], [0, 10]), INT8) == [words]
    assert limits.exceeded(figures(INT8, [10, 10], [10, 10]), INT8) == []


def test_without_limits_the_conformance_rules_decide() -> None:
    judge = Limits()
    assert not judge.given
    assert judge.exceeded(figures(INT8, [1], [0]), INT8) == []
    assert judge.exceeded(figures(INT8, [2], [0]), INT8) == ["2 steps, allowed 1"]
    close, far = figures(FLOAT, [1.00001], [1.0]), figures(FLOAT, [1.01], [1.0])
    assert judge.exceeded(close, FLOAT) == []
    assert judge.exceeded(far, FLOAT) == ["largest error 0.01, allowed 1.06e-05"]
    assert judge.exceeded(figures(FLOAT, [1.005], [1.0]), FLOAT, half=True) == []


def test_what_is_no_number_exceeds_every_limit() -> None:
    found = figures(FLOAT, [float("nan")], [1.0])
    for limits in (Limits(), Limits(max_ulp=1 << 40), Limits(min_sqnr=-100.0)):
        assert limits.exceeded(found, FLOAT) == ["1 elements are no finite number, or no equal one, on one side"]


def test_an_error_without_a_signal_has_too_little_of_it() -> None:
    assert Limits(min_sqnr=-10).exceeded(figures(FLOAT, [1.0], [0.0]), FLOAT) == [
        "SQNR: no signal, at least -10 dB allowed"
    ]


def test_zeros_of_the_other_sign_can_be_told() -> None:
    got, wanted = np.array([-0.0, 0.0, 1.0], np.float32), np.array([0.0, 0.0, 1.0], np.float32)
    for asked in (False, True):
        distance = Distance(Operand(FLOAT, (3,)), asked)
        distance.add(got, wanted)
        found = distance.figures
        assert (found.other_zeros, found.mismatching, found.unmatched) == (1, int(asked), 0)
        assert Limits(signed_zeros=asked).exceeded(found, FLOAT) == ["1 zeros have the other sign"] * asked
