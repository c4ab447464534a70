"""Tables without a terminal, and on a narrow one."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

import nnhal_tools.cli
from nnhal_pages.report import Footnotes
from nnhal_pages.terminal import FittingName, output_console, show_parts, show_table

NAME = "CONV_2D_63:model/conv2d_35/[BiasAdd]"


def printed(width: int, table: Table) -> list[str]:
    file = io.StringIO()
    show_table(table, Console(file=file, width=width))
    return file.getvalue().splitlines()


def test_every_command_prints_tables_in_the_same_way() -> None:
    for path in Path(nnhal_tools.cli.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert len(re.findall(r"\bConsole\(", text)) == len(re.findall(r"\bConsole\(stderr=True", text)), path
        assert not re.search(r"print\((table|growth|sizes)\)", text), path


def test_a_name_is_whole_if_there_is_room_and_is_no_markup() -> None:
    table = Table("node")
    table.add_row(FittingName(NAME))
    assert any(f" {NAME} " in line for line in printed(200, table))


def test_a_name_gives_way_to_the_other_columns() -> None:
    table = Table("node")
    table.add_column("device", no_wrap=True)
    table.add_row(FittingName(NAME), "a_device_with_a_name")
    lines = printed(40, table)
    assert {len(line) for line in lines} == {40}
    (row,) = [line for line in lines if "a_device_with_a_name" in line]
    assert "CONV_" in row and "Add]" in row and "…" in row


def test_a_title_longer_than_its_table_is_one_line() -> None:
    lines = printed(200, Table("a", title="A title that is longer than its table", caption="and its caption"))
    assert lines[0] == "A title that is longer than its table"
    assert lines[-1] == "and its caption"


def test_without_a_terminal_nothing_is_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    output_console().print("word " * 2000 + "end")
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_equal_sentences_share_a_footnote(capsys: pytest.CaptureFixture[str]) -> None:
    notes = Footnotes()
    assert [notes.number(text) for text in ("first", "[second]", "first")] == ["1", "2", "1"]
    show_parts([notes], output_console())
    assert capsys.readouterr().out.splitlines() == ["1: first", "2: [second]"]
