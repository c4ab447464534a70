"""Sizes of memory as people write them."""

from __future__ import annotations

import pytest

from nnhal_cascade.hardware.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("240128", 240128),
        ("240KiB", 245760),
        (" 1.5 MiB ", 1572864),
        ("500 kB", 500000),
        ("2MB", 2000000),
        ("1GiB", 1073741824),
        ("17 B", 17),
        ("17 bytes", 17),
        ("0.5KiB", 512),
    ],
)
def test_a_size_has_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "KiB", "-1KiB", "1,5MiB", "240KB", "240 kib", "1e3", "nan", "\uff11KiB"])
def test_what_is_no_size_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no size: expected a number .*KiB") as refusal:
        parse_size(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("text", ["0", "0KiB", "0.3", "0.0001KiB"])
def test_a_size_is_of_whole_bytes_and_not_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number of at least 1"):
        parse_size(text)
