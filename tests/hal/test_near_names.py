"""Names that a user may have meant."""

from __future__ import annotations

import pytest

from nnhal.near_names import did_you_mean, there_are

DEVICES = ("cpu_acc", "cpu_ref", "ethos_n")


@pytest.mark.parametrize(("given", "meant"), [("cpu_rev", "cpu_ref"), ("ETHOS_N", "ethos_n"), ("ethosn", "ethos_n")])
def test_the_nearest_name_is_asked_for(given: str, meant: str) -> None:
    assert did_you_mean(given, DEVICES) == f"; did you mean {meant!r}?"
    assert there_are(given, DEVICES) == f"there are cpu_acc, cpu_ref, ethos_n; did you mean {meant!r}?"


def test_of_a_name_that_is_near_none_nothing_is_asked() -> None:
    assert there_are("tpu", DEVICES) == "there are cpu_acc, cpu_ref, ethos_n"
    assert there_are("tpu", ()) == "there are none"
