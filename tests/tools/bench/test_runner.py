"""Ways take turns; a report has tables, aims and JSON, and its command fails if an aim is missed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import pytest
import typer
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from nnhal_tools.bench.runner import Aim, Report, aim_table, as_markdown, command_of_scenario, in_turns, statement


def test_ways_take_turns_in_blocks_and_every_other_round_goes_backwards() -> None:
    done: list[str] = []

    @contextmanager
    def around(name: str) -> Iterator[None]:
        done.append(f"{name}:")
        yield

    def run(name: str) -> str:
        done.append(name)
        return name.upper()

    noted: list[tuple[str, str]] = []

    def note(name: str, result: str) -> None:
        noted.append((name, result))

    ways = {name: partial(run, name) for name in "ab"}
    samples = in_turns(ways, 3, block=2, settling=1, warm_up=1, around=around, noted=note)
    assert "".join(done) == "ab" + "a:aaa" + "b:bbb" + "b:bb" + "a:aa"
    assert noted == [("a", "A")] * 2 + [("b", "B")] * 3 + [("a", "A")]
    assert {name: len(found.values) for name, found in samples.items()} == {"a": 3, "b": 3}
    assert samples["a"].percentile(0) <= samples["a"].percentile(50) <= samples["a"].percentile(100)


def test_a_figure_within_its_limit_meets_the_aim() -> None:
    assert Aim("peak", 9_504, 9_504).is_met
    assert not Aim("peak", 9_505, 9_504).is_met


def test_what_could_not_be_measured_is_missed() -> None:
    assert not Aim("peak", None, 9_504).is_met
    assert not statement("planned = measured", None).is_met


def test_a_statement_has_no_exceptions() -> None:
    assert statement("planned = measured", 0).is_met
    assert not statement("planned = measured", 1).is_met


def test_the_table_says_which_aims_are_missed() -> None:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(aim_table([Aim("peak", 9_000, 9_504, "bytes"), Aim("time", 1.5, 1.4, "s", "on a busy machine")]))
    peak, time = (line for line in captured.get().splitlines() if "bytes" in line or "busy" in line)
    assert "9,000" in peak
    assert "met" in peak
    assert "1.500" in time
    assert "missed" in time


def _table() -> Table:
    table = Table("name", title="Peaks")
    table.add_column("bytes", justify="right")
    table.add_row("a|b", "1,024")
    return table


def test_a_table_is_written_as_markdown() -> None:
    lines = ["### Peaks", "", "| name | bytes |", "| --- | ---: |", r"| a\|b | 1,024 |"]
    assert as_markdown(_table()).splitlines() == lines


def _peaks(most: Annotated[int, typer.Option(help="The aim.")] = 1024) -> Report:
    """Measure peaks."""
    return Report([_table()], [Aim("peak", 1024, most, "bytes")], ["measured twice"])


@pytest.mark.parametrize(("most", "status"), [("1024", 0), ("1000", 1)])
def test_a_command_has_the_options_of_its_scenario_and_fails_if_an_aim_is_missed(
    tmp_path: Path, most: str, status: int
) -> None:
    app = typer.Typer()
    app.command()(command_of_scenario(_peaks))
    markdown = tmp_path / "tables.md"
    done = CliRunner().invoke(app, ["--most", most, "--markdown", str(markdown)])
    assert done.exit_code == status
    assert all(word in done.stdout for word in ("1,024", "Aims", "measured twice"))
    assert "| a" in markdown.read_text() and "### Aims" in markdown.read_text()
    report = json.loads(CliRunner().invoke(app, ["--most", most, "--json"]).stdout)
    assert report["tables"] == [{"title": "Peaks", "rows": [["a|b", "1,024"]]}]
    assert [(aim["what"], aim["met"]) for aim in report["aims"]] == [("peak", status == 0)]
