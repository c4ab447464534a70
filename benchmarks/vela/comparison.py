"""Vela's runs beside the frontier of nnhal's compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.vela.domination import Point, dominating
from benchmarks.vela.program import VelaRun


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run of Vela, its schedule by nnhal's model, and what nnhal has instead."""

    run: VelaRun
    placed: Point
    """Vela's schedule by nnhal's model, with the bytes that it takes if nnhal places its buffers."""
    own: Point | None
    """The fastest point of the frontier with no more bytes than Vela reports and no more cycles, if there is one."""
    own_placed: Point | None
    """The same for the bytes that nnhal's placement takes."""


def compared(run: VelaRun, placed: Point, frontier: Sequence[Point]) -> Comparison:
    """Look for points of a frontier that are at least as good as a run."""
    reported = placed._replace(memory=run.summary.sram)
    return Comparison(run, placed, dominating(reported, frontier), dominating(placed, frontier))


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Return a table with a row for each run of Vela."""
    table = Table("network", "accelerator", "core", title="Vela's schedules and the frontier")
    for name in ("asked", "cascades", "its cycles", "by our model", "its bytes", "ours", "cycles", ""):
        table.add_column(name, justify="right")
    for name in ("placed by us", "ours", "cycles", ""):
        table.add_column(name, justify="right")
    for each in comparisons:
        run = each.run
        asked = "least" if run.arena is None else f"{run.arena // 1024} KiB"
        table.add_row(
            run.network,
            run.accelerator,
            run.core,
            asked,
            run.schedule.cascades,
            f"{run.summary.cycles:,}",
            f"{each.placed.cycles:,}",
            f"{run.summary.sram:,}",
            *_point(each.own, each.placed.cycles),
            f"{each.placed.memory:,}",
            *_point(each.own_placed, each.placed.cycles),
        )
    return table


def _point(own: Point | None, cycles: int) -> tuple[str, str, str]:
    if own is None:
        return "none", "", ""
    return f"{own.memory:,}", f"{own.cycles:,}", f"{own.cycles / cycles:.1%}"
