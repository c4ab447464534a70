"""Runs of Vela beside a frontier."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.compilers.comparison import Comparison, compared, comparison_table, summary_table
from benchmarks.compilers.domination import Point
from benchmarks.compilers.program import Core, VelaRun, vela_command
from benchmarks.compilers.reports import VelaOperation, VelaSchedule, VelaSummary
from nnhal_cascade.geometry.box import Shape

FRONTIER = [Point(100_000, 5_000), Point(200_000, 4_000)]


def _run(sram: int, arena: int | None = 256 * 1024) -> VelaRun:
    shape = Shape(1, 1, 8)
    schedule = VelaSchedule((VelaOperation(0, "Conv2D", shape, shape, 0),))
    return VelaRun("net", "u55-128", Core.REGOR, arena, schedule, VelaSummary(sram, 9_999))


def test_vela_has_the_cycles_of_our_model_and_its_own_bytes() -> None:
    found = compared(_run(250_000), Point(120_000, 5_500), FRONTIER)
    assert found.own == Point(200_000, 4_000)
    assert found.own_placed == Point(100_000, 5_000)


def test_a_schedule_that_no_point_is_as_good_as_is_not_dominated() -> None:
    found = compared(_run(199_999), Point(99_999, 4_500), FRONTIER)
    assert (found.own, found.own_placed) == (None, None)


def _text(comparison: Comparison) -> str:
    console = Console(width=250)
    with console.capture() as captured:
        console.print(comparison_table([comparison]))
    return captured.get()


def test_the_table_has_both_sides() -> None:
    text = _text(compared(_run(250_000), Point(90_000, 5_500), FRONTIER))
    assert all(word in text for word in ("256 KiB", "250,000", "9,999", "5,500", "200,000", "4,000", "72.7%", "none"))
    assert "least" in _text(compared(_run(250_000, arena=None), Point(90_000, 5_500), FRONTIER))


def test_the_summary_counts_what_is_dominated() -> None:
    better, worse = (compared(_run(sram), Point(90_000, 5_500), FRONTIER) for sram in (250_000, 80_000))
    table = summary_table([better, worse])
    assert table.row_count == 1
    assert [list(column.cells) for column in table.columns][3:] == [["2"], ["1"], ["72.7% to 72.7%"], ["0"], [""]]


@pytest.mark.parametrize(
    ("core", "arena", "options"),
    [
        (Core.REGOR, None, ["--optimise", "Size"]),
        (
            Core.LEGACY,
            262_144,
            ["--optimise", "Performance", "--arena-cache-size", "262144", "--debug-force-legacy-core"],
        ),
    ],
)
def test_the_command_asks_vela_for_a_core_and_an_arena(core: Core, arena: int | None, options: list[str]) -> None:
    command = vela_command(Path("vela"), Path("net.tflite"), "u65-256", core, arena, Path("out"))
    assert command[:4] == ["vela", "net.tflite", "--accelerator-config", "ethos-u65-256"]
    assert command[-len(options) :] == options
