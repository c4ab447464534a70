"""Names that converters make long."""

from __future__ import annotations

import pytest

from nnhal_pages.names import shortened


@pytest.mark.parametrize(("width", "short"), [(9, "abcdefghi"), (8, "abcd…ghi"), (5, "ab…hi"), (2, "a…"), (1, "…")])
def test_a_name_is_shortened_in_its_middle(width: int, short: str) -> None:
    assert shortened("abcdefghi", width) == short
