"""What the commands print: tables of a partition, a compilation, a simulation, and of modelled time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Column, Table

from nnhal.types.layout import describe
from nnhal_mlip.command.compiling import CompilationResult
from nnhal_mlip.command.layer_errors import LayerError
from nnhal_mlip.command.layer_words import counted, layer_title, some
from nnhal_mlip.command.partition_story import PartitionStory, SubgraphStory
from nnhal_mlip.command.perf_story import NetworkPerf
from nnhal_mlip.command.plan_file import MlipPlan, PlannedSubgraph
from nnhal_mlip.command.simulation import SimulationResult
from nnhal_mlip.simulator.report import PerfReport
from nnhal_pages.terminal import Footnotes, Name, show_table


def show_partition(story: PartitionStory, explain: bool, console: Console) -> None:
    """Print what the accelerator has and what the host has; if ``explain``, layer by layer and with reasons."""
    flow = "the public flow" if story.public else "beyond the public flow"
    console.print(
        f"{story.model}: {some(story.layers, 'layer')} in {some(len(story.subgraphs), 'subgraph')}, "
        f"{some(len(story.host), 'operator')} on the host ({flow})",
        markup=False,
    )
    for subgraph in story.subgraphs:
        console.print(_summary(subgraph), markup=False)
        if explain:
            _show_kernels(subgraph, console)
    if explain:
        _show_host(story, console)
        for reversion in story.reversions:
            console.print(f"back to the host: {', '.join(reversion.nodes)}: {reversion.reason}", markup=False)
        console.print(f"order: {', '.join(story.steps)}", markup=False)
        console.print(story.rule, markup=False)
    elif story.host:
        console.print(f"host: {', '.join(each.name for each in story.host)}; --explain says why", markup=False)


def _summary(subgraph: SubgraphStory) -> str:
    kinds = counted(kernel.layer for kernel in subgraph.kernels)
    return f"{subgraph.symbol}: {kinds}; {', '.join(subgraph.inputs)} to {', '.join(subgraph.outputs)}"


def _show_kernels(subgraph: SubgraphStory, console: Console) -> None:
    table = Table(
        "nodes",
        Column("layer", no_wrap=True),
        "operators",
        *(Column(header, no_wrap=True) for header in ("shape", "beyond")),
        title=f"Layers of {subgraph.symbol}",
    )
    notes = Footnotes()
    for kernel in subgraph.kernels:
        numbers = ", ".join(notes.number(reason) for reason in kernel.beyond_public)
        table.add_row(
            Name(layer_title(kernel.user_names, "(added)")),
            kernel.layer,
            ", ".join(kernel.operators),
            "x".join(map(str, kernel.shape)),
            numbers,
        )
    show_table(table, console)
    notes.show(console)


def _show_host(story: PartitionStory, console: Console) -> None:
    if not story.host:
        console.print("Nothing stays on the host.")
        return
    table = Table("node", *(Column(header, no_wrap=True) for header in ("operator", "check", "why")), title="Host")
    notes = Footnotes()
    for each in story.host:
        table.add_row(
            Name(each.name + (" (added)" if each.added else "")),
            each.operator if each.added else f"{each.kind} ({each.operator})",
            each.check,
            notes.number(f"{each.code}: {each.reason}"),
        )
    show_table(table, console)
    notes.show(console)


def show_compilation(result: CompilationResult, folder: Path, console: Console) -> None:
    """Print the layers of each binary, where they run, and what they cost."""
    plan = result.plan
    hosts = [step.host for step in plan.steps if step.host]
    console.print(
        f"{plan.model_name}: {some(len(plan.subgraphs), 'binary', 'binaries')} for at most "
        f"{some(plan.target.num_tiles, 'tile')}; {some(len(hosts), 'operator')} on the host"
        + (f": {', '.join(hosts)}" if hosts else ""),
        markup=False,
    )
    for subgraph in plan.subgraphs:
        _show_subgraph(plan, subgraph, (folder / subgraph.binary.file).stat().st_size, console)
    if result.errors:
        show_errors(result.errors, result.compared, console)
    console.print(f"written to {folder}: {', '.join(each.file for each in plan.files)}, plan.json", markup=False)


def show_errors(errors: Sequence[LayerError], samples: int, console: Console) -> None:
    """Print how far each layer is from the float network."""
    title = f"Simulated against the float network, {some(samples, 'sample')}"
    columns = [_compile_tables_number(header) for header in ("largest", "mean", "peak", "SQNR")]
    table = Table("nodes", _compile_tables_word("layer"), *columns, title=title)
    for error in errors:
        table.add_row(
            Name(layer_title(error.user_names, f"{error.value} (added)")),
            f"{error.kind} (host)" if error.on_host else error.kind,
            f"{error.largest:.3g}",
            f"{error.mean:.3g}",
            f"{error.peak:.3g}",
            "" if error.sqnr is None else f"{error.sqnr:.1f} dB",
        )
    show_table(table, console)


def _show_subgraph(plan: MlipPlan, subgraph: PlannedSubgraph, size: int, console: Console) -> None:
    numbers = [
        _compile_tables_number(header) for header in ("tiles", "stripes", "pages", "weights", "DDR", "MACs", "cycles")
    ]
    table = Table(
        "nodes",
        _compile_tables_word("layer"),
        _compile_tables_word("split"),
        *numbers,
        title=f"Layers of {subgraph.symbol}",
    )
    for layer in subgraph.layers:
        table.add_row(
            Name(layer_title(layer.user_names, "(added)")),
            layer.kind,
            split_word(layer.split, layer.tiles, layer.spills),
            *(f"{count:,}" for count in (layer.tiles, layer.stripes, layer.pages)),
            *(f"{count:,}" for count in (layer.weight_bytes, layer.ddr_bytes, layer.macs, layer.cycles)),
        )
    show_table(table, console)
    pinned = ", weights pinned" if plan.target.wb_pin_ocm else ""
    microseconds = plan.timing.nanoseconds(subgraph.cycles) / 1000
    console.print(
        f"{subgraph.symbol}: {subgraph.quantize} on {subgraph.tiles} tiles{pinned}; {size:,} bytes; modelled "
        f"{subgraph.cycles:,} cycles, {microseconds:,.1f} µs by profile {plan.profile['name']}",
        markup=False,
    )


def split_word(split: str, tiles: int, spills: bool) -> str:
    """Return how a layer is divided. One that no tile computes is another view of its input's bytes."""
    if not tiles:
        return "a view"
    return split + (", spills" if spills else "")


def _compile_tables_word(header: str) -> Column:
    return Column(header, no_wrap=True)


def _compile_tables_number(header: str) -> Column:
    return Column(header, no_wrap=True, justify="right")


_SHOWN = 8


def show_simulation(plan: MlipPlan, result: SimulationResult, console: Console) -> None:
    """Print outputs and times, and errors by layer if there are any."""
    for symbol, run in result.runs.items():
        console.print(
            f"{symbol}: modelled {run.timeline.total:,} cycles, {run.hardware_ns / 1000:,.1f} µs, and "
            f"{run.firmware_ns / 1000:,.1f} µs of firmware by profile {plan.profile['name']}",
            markup=False,
        )
    for name, array in result.outputs.items():
        values = np.array2string(array.reshape(-1)[:_SHOWN], precision=4, separator=" ", max_line_width=console.width)
        more = f" … {array.size - _SHOWN} more" if array.size > _SHOWN else ""
        console.print(f"{name} {array.dtype} {describe(array.shape)}: {values}{more}", markup=False)
    if result.errors:
        show_errors(result.errors, 1, console)


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
    numbers = [
        _perf_tables_number(each) for each in ("tiles", "stripes", "begin", "cycles", "of peak", "DMA", "pages", "DDR")
    ]
    table = Table(
        "nodes",
        _perf_tables_word("layer"),
        _perf_tables_word("split"),
        *numbers,
        _perf_tables_word("bound by"),
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
    table = Table(
        _perf_tables_word("tile"),
        *map(_perf_tables_number, headers),
        title=f"Cycles of the tiles of {report.program} (modelled)",
    )
    for tile, (use, pages) in enumerate(zip(report.by_tile, report.pages, strict=True)):
        cells = (use.array, use.irregular, use.issue, use.copying, use.waiting_transfers, use.waiting_tiles)
        table.add_row(str(tile), *(f"{count:,}" for count in (*cells, use.barrier, use.idle, pages)))
    show_table(table, console)
    dma = report.dma
    start = f"; pinned weights are loaded once, in {report.start_cycles:,}" if report.start_cycles else ""
    console.print(
        f"DMA: {dma.busy:,} cycles busy, {dma.waiting:,} waiting, {dma.idle:,} idle, of {report.total:,}{start}"
    )


def _perf_tables_word(header: str) -> Column:
    return Column(header, no_wrap=True)


def _perf_tables_number(header: str) -> Column:
    return Column(header, no_wrap=True, justify="right")
