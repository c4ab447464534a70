"""Tables that are printed and kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.table import Table

from benchmarks.tables import ShownTables


def test_tables_are_printed_and_written_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", title="Peaks")
    table.add_column("bytes", justify="right")
    table.add_row("a|b", "1,024")
    tables = ShownTables()
    tables.show(table)
    tables.show(Table("alone", title="Nothing"))
    assert "1,024" in capsys.readouterr().out
    tables.write(tmp_path / "tables.md")
    assert (tmp_path / "tables.md").read_text().splitlines() == [
        "### Peaks",
        "",
        "| name | bytes |",
        "| --- | ---: |",
        r"| a\|b | 1,024 |",
        "",
        "### Nothing",
        "",
        "| alone |",
        "| --- |",
    ]
