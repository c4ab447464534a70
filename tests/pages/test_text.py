"""Texts of strangers."""

from __future__ import annotations

from html import unescape
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_pages.text import clipped, escaped, shortened, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv2d/Größe_μ", "conv2d/Größe_μ"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066x\u2069\u200f", "\\u2066x\\u2069\\u200f"),
        ("\0\x1b[31m\ufffe", "\\u0000\\u001b[31m\\ufffe"),
        ("\ud800", "\\ud800"),
        ("हिन्\u200dदी", "हिन्\u200dदी"),
    ],
)
def test_control_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.slow
@given(st.text())
def test_any_text_is_well_formed_markup_that_shows_it(text: str) -> None:
    element = ElementTree.fromstring(f"<a title='{escaped(text)}'>{escaped(text)}</a>")
    assert (element.text or "") == element.attrib["title"] == visible(text)
    assert unescape(escaped(text)) == visible(text)


@pytest.mark.parametrize(("width", "short"), [(9, "abcdefghi"), (8, "abcd…ghi"), (5, "ab…hi"), (2, "a…"), (1, "…")])
def test_a_name_is_shortened_in_its_middle(width: int, short: str) -> None:
    assert shortened("abcdefghi", width) == short


@pytest.mark.parametrize(
    ("width", "short"),
    [
        (48, "refused 50 of 52: tensor_quant8_asymm_signed"),
        (40, "refused 50 of 52…"),
        (14, "refused 50 of…"),
        (5, "refu…"),
        (0, "…"),
    ],
)
def test_a_sentence_ends_with_a_whole_word(width: int, short: str) -> None:
    assert clipped("refused 50 of 52: tensor_quant8_asymm_signed", width) == short
