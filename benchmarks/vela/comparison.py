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
    cycles: int
    """Of Vela's schedule by the model of nnhal's compiler."""
    own: Point | None
    """The fastest point of the frontier with no more memory than Vela reports and no more cycles, if there is one."""
    placed: int
    """Bytes of Vela's cascades if nnhal places them, with rolling buffers of the rows that are alive."""
    own_placed: Point | None
    """The fastest point of the frontier with no more memory than that and no more cycles, if there is one."""


def compared(run: VelaRun, placed: Point, frontier: Sequence[Point]) -> Comparison:
    """Look for points of a frontier that are at least as good as a run. ``placed`` is its schedule, placed by nnhal."""
    reported = Point(run.summary.sram, placed.cycles)
    own, own_placed = dominating(reported, frontier), dominating(placed, frontier)
    return Comparison(run, placed.cycles, own, placed.memory, own_placed)


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Return a table with a row for each run of Vela."""
    table = Table("network", "accelerator", "core", title="Vela's schedules and the frontier")
    for name in ("asked", "Vela's bytes", "cascades", "its cycles", "by our model", "our bytes", "cycles", "of Vela's"):
        table.add_column(name, justify="right")
    for name in ("placed by us", "our bytes", "cycles", "of Vela's"):
        table.add_column(name, justify="right")
    for each in comparisons:
        run = each.run
        asked = "least" if run.arena is None else f"{run.arena // 1024} KiB"
        table.add_row(
            run.network,
            run.accelerator,
            run.core,
            asked,
            f"{run.summary.sram:,}",
            run.schedule.cascades,
            f"{run.summary.cycles:,}",
            f"{each.cycles:,}",
            *_point(each.own, each.cycles),
            f"{each.placed:,}",
            *_point(each.own_placed, each.cycles),
        )
    return table


def _point(own: Point | None, cycles: int) -> tuple[str, str, str]:
    if own is None:
        return "none", "", ""
    return f"{own.memory:,}", f"{own.cycles:,}", f"{own.cycles / cycles:.1%}"
