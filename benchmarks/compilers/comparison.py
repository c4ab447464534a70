"""Vela's runs beside the frontier of nnhal's compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.compilers.domination import Point, dominating
from benchmarks.compilers.program import VelaRun


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


def summary_table(comparisons: Sequence[Comparison]) -> Table:
    """Return a table with a row for each network, accelerator and core: how many schedules the frontier dominates."""
    table = Table("network", "accelerator", "core", title="Schedules of Vela that the frontier dominates")
    for name in ("schedules", "in Vela's bytes", "our cycles", "in bytes placed by us", "our cycles"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for each in comparisons:
        groups.setdefault((each.run.network, each.run.accelerator, each.run.core), []).append(each)
    for names, own in groups.items():
        reported, placed = _ratios(own, [each.own for each in own]), _ratios(own, [each.own_placed for each in own])
        table.add_row(*names, str(len(own)), str(len(reported)), _range(reported), str(len(placed)), _range(placed))
    return table


def _ratios(comparisons: Sequence[Comparison], points: Sequence[Point | None]) -> list[float]:
    """The cycles of points over those of Vela's schedules, where there is one."""
    pairs = zip(comparisons, points, strict=True)
    return [point.cycles / each.placed.cycles for each, point in pairs if point is not None]


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.1%} to {max(ratios):.1%}" if ratios else ""


def _point(own: Point | None, cycles: int) -> tuple[str, str, str]:
    if own is None:
        return "none", "", ""
    return f"{own.memory:,}", f"{own.cycles:,}", f"{own.cycles / cycles:.1%}"
