"""Checks of pages, on text that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose.checks import length_problems, prose_problems
from tests.prose.links import broken_links
from tests.prose.sentences import sentences_of

LONG = " ".join(["word"] * 31) + "."


def test_a_page_has_a_budget_of_words() -> None:
    assert list(length_problems("one two three", 3)) == []
    assert list(length_problems("one two three four", 3)) == ["4 words, expected at most 3"]
    assert "no budget" in next(length_problems("one", None, "docs/new.md"))
    assert list(length_problems("one", None, "docs/reference/made.md")) == []


def test_a_long_sentence_is_found_with_its_line() -> None:
    assert list(prose_problems(f"# Title\n\nShort.\n\n- {LONG}\n")) == [
        f"5: 31 words in a sentence, expected at most 30: {LONG[:60]}…"
    ]


@pytest.mark.parametrize("text", [f"```\n{LONG}\n```", f"    {LONG}", f"# {LONG}", "Short. " * 31])
def test_code_and_headings_have_no_sentences_and_short_ones_are_right(text: str) -> None:
    assert list(prose_problems(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "A model of which it is one.",
        "It is told.",
        "What the file says that matters.",
        "Those that run.",
        "So much are caches.",
        "It lets one go.",
    ],
)
def test_a_riddle_is_found_in_prose_and_in_tables(text: str) -> None:
    assert [problem.split()[1] for problem in prose_problems(text)] == ["riddle"]
    assert [problem.split()[1] for problem in prose_problems(f"| {text} | x |")] == ["riddle"]
    assert list(prose_problems(f"`{text}`")) == []


def test_history_and_paths_of_tests_are_found() -> None:
    found = list(prose_problems("It no longer waits (`tests/system/test_waiting.py`)."))
    assert [problem.partition(":")[2].split()[0] for problem in found] == ["history", "path"]


def test_sentences_are_those_of_paragraphs_items_and_cells() -> None:
    text = "A [link](x.md) with `code`. Two\nlines.\n\n1. An item\n   goes on\n2. Another\n\n| a cell: b | c |\n"
    assert [(s.line, s.text) for s in sentences_of(text)] == [
        (1, "A link with CODE."),
        (1, "Two lines."),
        (4, "An item goes on"),
        (6, "Another"),
        (8, "a cell"),
        (8, "b"),
        (8, "c"),
    ]


def test_a_list_of_code_is_one_word() -> None:
    (sentence,) = sentences_of(", ".join(["`ADD`"] * 40))
    assert sentence.words == 1


def test_links_lead_to_files_and_headings(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# Top\n\n## A `b` c\n\n[x](#a-b-c) [y](b.md) [z](a.md#none) [w](https://example.org)\n")
    assert list(broken_links(page)) == ["b.md", "a.md#none"]
