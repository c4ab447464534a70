"""A breakdown as tables."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from benchmarks.serve.breakdown.measured import Breakdown
from benchmarks.serve.breakdown.usage import UsageOfRole

_LEAST_CALLS = 0.05
_LEAST_US = 0.5
_LEAST_WAKES = 0.01


def tables(breakdown: Breakdown) -> Iterator[Table]:
    """A table of stages, one of processes and threads, and one of system calls if they were counted."""
    yield _stages(breakdown)
    yield _usage(breakdown)
    if breakdown.calls is not None:
        yield _calls(breakdown, breakdown.calls)


def _stages(breakdown: Breakdown) -> Table:
    is_traced = any(stage.p50_us >= 0 for stage in breakdown.stages)
    table = Table(
        "stage",
        title=f"{breakdown.target.title}, {breakdown.concurrency} at a time: {breakdown.requests:,} requests, "
        f"{breakdown.rate:,.0f}/s, p50 {breakdown.p50_us:,.0f} µs, mean {breakdown.mean_us:,.0f} µs",
        caption="One request at a time, each of them traced, which takes longer." if is_traced else None,
    )
    table.add_column("p50 µs", justify="right")
    table.add_column("mean µs", justify="right")
    for stage in breakdown.stages:
        table.add_row(stage.name, f"{stage.p50_us:,.1f}" if stage.p50_us >= 0 else "", f"{stage.mean_us:,.1f}")
    table.add_section()
    table.add_row("all", "", f"{sum(stage.mean_us for stage in breakdown.stages):,.1f}")
    return table


def _usage(breakdown: Breakdown) -> Table:
    table = Table(
        "process",
        "threads",
        title="For each request",
        caption=f"System calls are not counted: {breakdown.uncounted}" if breakdown.uncounted else None,
    )
    for name in ("number", "wake-ups", "preemptions", "processor µs", "system calls"):
        table.add_column(name, justify="right")
    for process in dict.fromkeys(row.process for row in breakdown.usage):
        own = [row for row in breakdown.usage if row.process == process]
        for row in filter(_is_shown, own):
            table.add_row(process, row.role, f"{row.threads or ''}", *_figures([row]))
        table.add_row(process, "all", f"{sum(row.threads for row in own)}", *_figures(own), style="bold")
        table.add_section()
    return table


def _is_shown(row: UsageOfRole) -> bool:
    """Whether the threads do anything for a request, or so often beside it that it matters."""
    return row.processor_us >= _LEAST_US or row.wakes >= _LEAST_WAKES or (row.calls or 0) >= _LEAST_CALLS


def _figures(rows: list[UsageOfRole]) -> Iterator[str]:
    yield f"{sum(row.wakes for row in rows):.2f}"
    yield f"{sum(row.preemptions for row in rows):.2f}"
    yield f"{sum(row.processor_us for row in rows):,.1f}"
    known = [row.calls for row in rows if row.calls is not None]
    yield f"{sum(known):.1f}" if known else ""


def _calls(breakdown: Breakdown, calls: dict[str, dict[str, float]]) -> Table:
    processes = list(dict.fromkeys(row.process for row in breakdown.usage))
    table = Table("system calls of a request", caption="Counted in a series of its own, which they slow down.")
    for process in processes:
        table.add_column(process, justify="right")
    rare = dict.fromkeys(processes, 0.0)
    for name, row in sorted(calls.items(), key=lambda item: -sum(item[1].values())):
        if sum(row.values()) >= _LEAST_CALLS:
            table.add_row(name, *(f"{row[process]:.2f}" if row[process] else "" for process in processes))
        else:
            rare = {process: rare[process] + row[process] for process in processes}
    table.add_row("others", *(f"{rare[process]:.2f}" for process in processes))
    return table
