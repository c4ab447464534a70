"""Results and ratios as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.peers.ratios import Ratio
from benchmarks.peers.rounds import Result

_WORDS = {True: "met", False: "missed", None: ""}


def result_table(results: Sequence[Result]) -> Table:
    """Return a table with a row for each contender, the fastest of each model first."""
    table = Table(
        "model", "concurrency", "contender", "inferences/s", "p50", "p99", "spread", title="Medians of rounds"
    )
    groups = dict.fromkeys((result.model, result.concurrency) for result in results)
    for group in groups:
        own = [result for result in results if (result.model, result.concurrency) == group]
        for r in sorted(own, key=lambda result: -result.rate):
            times = (f"{value:,.0f} µs" for value in (r.p50_us, r.p99_us))
            table.add_row(r.model, str(r.concurrency), r.contender, f"{r.rate:,.1f}", *times, f"{r.spread:.0%}")
        table.add_section()
    return table


def ratio_table(ratios: Sequence[Ratio]) -> Table:
    """Return a table with a row for each ratio and its aim."""
    table = Table("model", "concurrency", "what", "ratio", "by p50", "aim", "", title="Inferences per second")
    for ratio in ratios:
        aim = "" if ratio.aim is None else f">= {ratio.aim:.2f}"
        figures = (f"{ratio.ratio:.2f}", f"{ratio.p50:.2f}", aim, _WORDS[ratio.is_met])
        table.add_row(ratio.model, str(ratio.concurrency), ratio.what, *figures)
    return table
