"""The page about TFLite's operators has those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnhal_frontends.tflite.graph import CUSTOM
from nnhal_frontends.tflite.ops import CONVERTERS
from tests.frontends.tflite.test_every_operator import BY_LITERT, LACKING

_PAGE = (Path(__file__).parents[3] / "docs" / "tflite_coverage.md").read_text()


def listed(heading: str) -> list[str]:
    """The operators of a section's list, in which every line begins with one."""
    section = _PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.split("\n") if re.match(r"`[A-Z0-9_]+`(,|$)", line)]
    return re.findall(r"`([A-Z0-9_]+)`", "\n".join(lines))


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Operators with operations of the HAL", {name for name in CONVERTERS if not name.startswith(CUSTOM)}),
        ("Operators that LiteRT runs", BY_LITERT),
        ("Operators that neither has", LACKING),
    ],
)
def test_the_page_lists_the_operators(heading: str, expected: set[str]) -> None:
    assert listed(heading) == sorted(expected)
