"""docs/access.md: the tests that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_tests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs/access.md").read_text()))
    assert len(named) > 30
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
