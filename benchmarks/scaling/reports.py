"""The measurements as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.scaling.outages import Outage
from benchmarks.scaling.ways import ALONE
from benchmarks.scaling.windows import WayResult


def overhead_table(results: Sequence[WayResult]) -> Table:
    """Return a table of latencies, one request at a time, beside those of one host without anything between."""
    table = Table("model", "way", title="One request at a time: medians of the windows")
    for name in ("p50", "more than one host", "p99", "processor time between", "spread"):
        table.add_column(name, justify="right")
    for result in results:
        alone = _alone(results, result)
        more = "" if alone is None or alone is result else f"{result.p50_ms - alone.p50_ms:+.2f} ms"
        between = f"{result.between_us:,.0f} µs" if result.way.processes else ""
        latencies = (f"{result.p50_ms:.2f} ms", more, f"{result.p99_ms:.2f} ms")
        table.add_row(result.model, result.way.title, *latencies, between, f"{result.spread:.0%}")
    return table


def throughput_table(results: Sequence[WayResult]) -> Table:
    """Return a table of rates, of which one host's are the measure."""
    table = Table("model", "way", "at a time", title="Two hosts whose devices are the limit: medians of the windows")
    for name in ("answers/s", "of one host's", "p50", "p99"):
        table.add_column(name, justify="right")
    for result in results:
        alone = _alone(results, result)
        ratio = "" if alone is None else f"{result.rate / alone.rate:.2f}"
        latencies = (f"{result.p50_ms:.1f} ms", f"{result.p99_ms:.1f} ms")
        table.add_row(result.model, result.way.title, str(result.concurrency), f"{result.rate:.0f}", ratio, *latencies)
    return table


def outage_table(outages: Sequence[Outage]) -> Table:
    """Return a table of what was lost when one of two hosts was killed."""
    table = Table("way", title="One of two hosts is killed under load")
    for name in ("requests", "failed", "failures for", "longest request"):
        table.add_column(name, justify="right")
    table.add_column("error")
    for outage in outages:
        seconds = (f"{outage.failing_seconds:.2f} s", f"{outage.longest_seconds:.2f} s")
        table.add_row(outage.way.title, str(outage.requests), str(outage.failed), *seconds, outage.words)
    return table


def _alone(results: Sequence[WayResult], beside: WayResult) -> WayResult | None:
    """Find the result of one host with the same model and protocol."""
    protocol = beside.way.destination.protocol
    for result in results:
        if (result.way.name, result.model, result.way.destination.protocol) == (ALONE, beside.model, protocol):
            return result
    return None
