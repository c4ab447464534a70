"""docs/threats.md: the tests that it names are there, and the fuzzer has the targets that it names."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fuzz.targets import NAMES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/threats.md").read_text()


def test_the_tests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert len(named) > 30
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_each_row_names_a_test() -> None:
    rows = PAGE.partition("## What holds")[2].partition("## By machine")[0].splitlines()
    told = [row for row in rows if row.startswith("| ")][1:]
    assert [row for row in told if "`tests/" not in row] == []


def test_the_page_names_every_target() -> None:
    table = PAGE.partition("## By machine")[2]
    assert [name for name in NAMES if f"`{name}`" not in table] == []
