"""Results and ratios as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.peers.ratios import Ratio
from benchmarks.peers.rounds import Result

_WORDS = {True: "met", False: "missed", None: ""}


def result_table(results: Sequence[Result]) -> Table:
    """Return a table with a row for each contender, the fastest of each model first."""
    table = Table("model", "concurrency", "contender", title="Medians of rounds")
    for name in ("inferences/s", "p50", "p99", "servers' CPU", "spread"):
        table.add_column(name, justify="right")
    groups = dict.fromkeys((result.model, result.concurrency) for result in results)
    for group in groups:
        own = [result for result in results if (result.model, result.concurrency) == group]
        for r in sorted(own, key=lambda result: -result.rate):
            times = ("" if value is None else f"{value:,.0f} µs" for value in (r.p50_us, r.p99_us, r.cpu_us))
            table.add_row(r.model, str(r.concurrency), r.contender, f"{r.rate:,.1f}", *times, f"{r.spread:.0%}")
        table.add_section()
    return table


def ratio_table(ratios: Sequence[Ratio]) -> Table:
    """Return a table with a row for each ratio that has no aim."""
    table = Table("model", "concurrency", "what", "of", title="Ratios")
    table.add_column("ratio", justify="right")
    for ratio in ratios:
        if ratio.aim is None:
            table.add_row(ratio.model, str(ratio.concurrency), ratio.what, ratio.quantity, f"{ratio.ratio:.2f}")
    return table


def aim_table(ratios: Sequence[Ratio]) -> Table:
    """Return a table with a row for each ratio that has an aim."""
    table = Table("model", "concurrency", "what", "of", title="Aims")
    for name in ("ratio", "aim"):
        table.add_column(name, justify="right")
    table.add_column("")
    for r in ratios:
        if r.aim is not None:
            aim = f"{'<=' if r.at_most else '>='} {r.aim:.2f}"
            table.add_row(r.model, str(r.concurrency), r.what, r.quantity, f"{r.ratio:.2f}", aim, _WORDS[r.is_met])
    return table
