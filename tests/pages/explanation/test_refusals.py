"""Refusals of a plan, summed by device and cause."""

from __future__ import annotations

import pytest

from nnhal_pages.explanation.refusals import cause_of, refusals_of
from tests.support.explanations import Placed, explained

FLOAT = "DTYPE: got input 0 of TENSOR_FLOAT32, allowed TENSOR_QUANT8_ASYMM_SIGNED; quantize the model"


def test_refusals_are_summed_by_device_and_cause_the_most_frequent_first() -> None:
    told = explained(
        [
            Placed("a", "ADD", "cpu", ("x",), ("y",), {"mlip": FLOAT, "npu": "STRIDE: got 4 x 4, allowed at most 3"}),
            Placed("b", "GELU", "cpu", ("y",), ("z",), {"mlip": "OP: got GELU, allowed one of the 55 operations"}),
            Placed("c", "ADD", "cpu", ("z",), ("u",), {"mlip": FLOAT}),
            Placed("d", "ADD", "cpu", ("u",), ("v",)),
        ]
    )
    mlip, npu = refusals_of(told)
    assert mlip.sentence == "mlip refused 3 of 4: float32 (2), and 1 more cause"
    assert [(cause.words, cause.operations) for cause in mlip.causes] == [("float32", (0, 2)), ("no GELU", (1,))]
    assert mlip.causes[0].reason == FLOAT
    assert npu.sentence == "npu refused 1 of 4: the stride"


def test_a_plan_that_no_device_refuses_has_none() -> None:
    assert refusals_of(explained([Placed("a", "ADD", "cpu", ("x",), ("y",))])) == ()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("DTYPE: got bool to int, allowed floats to floats", "the element type"),
        ("NO_IMPL: got ADD, allowed others, by injected fault 'it'", "no ADD"),
        ("REVERTED: got a lone ADD, allowed more", "not worth the hand-over"),
        ("NEW_CODE: got this, allowed that", "new_code"),
        ("its optimiser fails: RESOURCE_EXHAUSTED_PERSISTENT: too large", "its optimiser fails"),
        ("it is gone: the model is planned without it until it is back", "it is gone"),
        ("", "no reason"),
        ("x" * 60, "x" * 47 + "…"),
    ],
)
def test_each_kind_of_reason_has_words(reason: str, words: str) -> None:
    assert cause_of(reason, "ADD") == words
