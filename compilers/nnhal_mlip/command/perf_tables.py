"""Modelled time as tables for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table

from nnhal_mlip.command.compile_tables import split_word
from nnhal_mlip.command.layer_words import layer_title
from nnhal_mlip.command.perf_story import NetworkPerf
from nnhal_mlip.simulator.report import PerfReport
from nnhal_pages.terminal import Name, show_table


def show_perf(perf: NetworkPerf, console: Console) -> None:
    """Print layers, tiles and sums."""
    for binary in perf.binaries:
        _show_layers(binary.report, console)
        _show_tiles(binary.report, console)
    console.print(f"{perf.model}: {totals(perf)}", markup=False)
    console.print(bounds(perf), markup=False)
    if perf.host:
        console.print(f"the host computes {', '.join(perf.host)}, in times that are not modelled", markup=False)


def totals(perf: NetworkPerf) -> str:
    """Return the sums in a line."""
    return (
        f"modelled {perf.cycles:,} cycles, {perf.hardware_ns / 1000:,.1f} µs at {perf.clock_hz / 1e9:g} GHz by profile "
        f"{perf.profile}, and {perf.firmware_ns / 1000:,.1f} µs of firmware; {perf.macs:,} MACs, {perf.ddr_bytes:,} "
        "bytes of DDR"
    )


def bounds(perf: NetworkPerf) -> str:
    """Return the lower bound in a line."""
    times = f", of which this is {perf.cycles / perf.least:.2f} times" if perf.least else ""
    return f"no schedule takes less than {perf.least:,} cycles: full arrays, and DDR without a pause{times}"


def _show_layers(report: PerfReport, console: Console) -> None:
    numbers = [_number(each) for each in ("tiles", "stripes", "begin", "cycles", "of peak", "DMA", "pages", "DDR")]
    table = Table(
        "nodes",
        _word("layer"),
        _word("split"),
        *numbers,
        _word("bound by"),
        title=f"Layers of {report.program} (modelled)",
    )
    for layer in report.layers:
        table.add_row(
            Name(layer_title(layer.user_names, "(added)")),
            layer.kind,
            split_word(layer.split, layer.tiles_used, layer.spills),
            f"{layer.tiles_used}",
            f"{layer.stripes}",
            f"{layer.begin:,}",
            f"{layer.cycles:,}",
            f"{layer.utilisation:.1%}" if layer.counters.macs else "",
            f"{layer.dma.busy:,}",
            f"{max(layer.pages, default=0)}",
            f"{layer.counters.ddr_bytes:,}",
            layer.bound,
        )
    show_table(table, console)


def _show_tiles(report: PerfReport, console: Console) -> None:
    headers = ("array", "irregular", "issue", "copies", "wait DMA", "wait tiles", "barrier", "idle", "pages")
    table = Table(_word("tile"), *map(_number, headers), title=f"Cycles of the tiles of {report.program} (modelled)")
    for tile, (use, pages) in enumerate(zip(report.by_tile, report.pages, strict=True)):
        cells = (use.array, use.irregular, use.issue, use.copying, use.waiting_transfers, use.waiting_tiles)
        table.add_row(str(tile), *(f"{count:,}" for count in (*cells, use.barrier, use.idle, pages)))
    show_table(table, console)
    dma = report.dma
    start = f"; pinned weights are loaded once, in {report.start_cycles:,}" if report.start_cycles else ""
    console.print(
        f"DMA: {dma.busy:,} cycles busy, {dma.waiting:,} waiting, {dma.idle:,} idle, of {report.total:,}{start}"
    )


def _word(header: str) -> Column:
    return Column(header, no_wrap=True)


def _number(header: str) -> Column:
    return Column(header, no_wrap=True, justify="right")
