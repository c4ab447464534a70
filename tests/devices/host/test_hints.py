from __future__ import annotations

import pytest

from nnhal.types import ExtensionNameAndPrefix, TokenValuePair
from nnhal_devices.host.hints import validate_hints
from tests.support.refusals import INVALID, refusal

NAMES = (ExtensionNameAndPrefix("com.example.hints", 7),)


def hints(*tokens: int) -> list[TokenValuePair]:
    return [TokenValuePair(token, b"") for token in tokens]


@pytest.mark.contract("PM-15", "RE-07")
def test_a_hint_of_a_known_extension_is_fine_even_when_nobody_knows_what_it_means() -> None:
    validate_hints(hints(0x7_0000, 0x7_FFFF), NAMES)
    validate_hints([], ())


@pytest.mark.contract("PM-15", "RE-07")
@pytest.mark.parametrize("token", [0, 1, 0x8_0001, -1])
def test_a_hint_of_an_extension_that_is_not_mapped_is_refused(token: int) -> None:
    refusal(lambda: validate_hints(hints(0x7_0001, token), NAMES), INVALID, "which is mapped to no extension")


@pytest.mark.contract("PM-15", "RE-07")
def test_the_tokens_of_hints_are_unique() -> None:
    refusal(lambda: validate_hints(hints(0x7_0001, 0x7_0001), NAMES), INVALID, r"hint tokens \[.*\] are not unique")
