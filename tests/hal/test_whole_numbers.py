from __future__ import annotations

import pytest

from nnhal.whole_numbers import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), ("12", 12), ("9223372036854775807", 2**63 - 1)])
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", " 1", "1e3", "0x1", "٣", "²", "9223372036854775808", "9" * 5000, "0" * 5000]
)
def test_anything_else_is_none(text: str) -> None:
    assert whole_number(text) is None


def test_a_number_has_the_limit_that_is_said() -> None:
    assert whole_number("100", 100) == 100
    assert whole_number("101", 100) is None
