"""Tables of any width of a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from nnhal_tools.fitted_rows import fitted_rows

COLUMNS = ("process", "state", "remarks")
ROWS = [
    ("framework", "running", "grpc: 127.0.0.1:38721; metrics: 127.0.0.1:39357"),
    ("cpu_ref", "", "[bold]no markup[/bold]"),
]


def printed(width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(fitted_rows(COLUMNS, ROWS, width))
    return text.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 40, 48, 60, 200])
def test_no_cell_is_cut_and_no_short_word_is_broken(width: int) -> None:
    lines = printed(width)
    assert all(len(line) <= width for line in lines)
    words = " ".join(lines).replace(";", " ").split()
    for cell in ("framework", "running", "127.0.0.1:38721", "127.0.0.1:39357", "cpu_ref"):
        assert cell in words
    assert "[bold]no" in words
    assert "…" not in "".join(lines)


def test_a_wide_terminal_gets_a_table_with_a_line_for_each_row() -> None:
    lines = printed(200)
    assert len(lines) == 6
    assert [cell.strip() for cell in lines[3].strip("│").split("│")] == list(ROWS[0])


def test_a_narrow_terminal_gets_a_paragraph_for_each_row() -> None:
    lines = printed(30)
    assert lines[0].strip() == "framework"
    assert lines[1].strip().startswith("state: running; remarks:")
    paragraph = lines[lines.index(next(line for line in lines if line.strip() == "cpu_ref")) + 1]
    assert paragraph.strip().startswith("remarks: "), "an empty cell is left out"
