"""Texts of the commands: parts for a terminal, and the page of a network's modelled time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nnhal.types.layout import describe
from nnhal.v1 import admin_pb2
from nnhal_mlip.command.compiling import CompiledBinary, CompiledNetwork
from nnhal_mlip.command.network_perf import NetworkPerf, network_perf
from nnhal_mlip.command.partition_report import Told
from nnhal_mlip.command.simulation import SimulationResult
from nnhal_mlip.compiler.memory_map import OcmUse, alike_tiles, uses_by_tile
from nnhal_mlip.program.program import OCM_BYTES
from nnhal_mlip.simulator.report import LayerPerf, PerfReport
from nnhal_mlip.timing.usage import TileUsage
from nnhal_pages.charts.memory import memory_chart
from nnhal_pages.document import Figure
from nnhal_pages.report import (
    Column,
    FigureCards,
    Folded,
    Footnotes,
    Mark,
    Markup,
    Medium,
    Name,
    PagePart,
    Picture,
    ReportTable,
    TerminalPart,
    report_page,
)
from nnhal_pages.svg import Drawing

_SHOWN = 8
"""Values of an output that are printed."""


def _title(user_names: Sequence[str]) -> str:
    """Return the user's names of a layer, or say that a pass has added it."""
    return " + ".join(user_names) or "(added)"


def _counted(words: Iterable[str]) -> str:
    """Return the words with the number of their occurrences, unless that is 1: ``20 Conv2D, Maxpool2D``."""
    counts = Counter(words)
    return ", ".join(word if count == 1 else f"{count} {word}" for word, count in counts.items())


def _some(count: int, word: str, several: str = "") -> str:
    """Return a number with its word: ``1 layer``, ``2 binaries``. ``several`` is the plural unless an s makes it."""
    return f"{count} {word if count == 1 else several or word + 's'}"


def partition_parts(report: Told, explain: bool) -> list[TerminalPart]:
    """Say what the accelerator has and what the host has; if ``explain``, layer by layer and with reasons."""
    flow = "the public flow" if report["public"] else "beyond the public flow"
    subgraphs, host = report["subgraphs"], report["host"]
    parts: list[TerminalPart] = [
        f"{report['model']}: {_some(sum(len(each['kernels']) for each in subgraphs), 'layer')} in "
        f"{_some(len(subgraphs), 'subgraph')}, {_some(len(host), 'operator')} on the host ({flow})"
    ]
    for subgraph in subgraphs:
        kinds = _counted(kernel["layer"] for kernel in subgraph["kernels"])
        ends = f"{', '.join(subgraph['inputs'])} to {', '.join(subgraph['outputs'])}"
        parts.append(f"{subgraph['symbol']}: {kinds}; {ends}")
        if explain:
            parts += _kernels(subgraph)
    if explain:
        parts += _host(host) if host else ["Nothing stays on the host."]
        parts += [f"back to the host: {', '.join(each['nodes'])}: {each['reason']}" for each in report["reversions"]]
        parts += [f"order: {', '.join(report['steps'])}", report["rule"]]
    elif host:
        parts.append(f"host: {', '.join(each['name'] for each in host)}; --explain says why")
    return parts


def _kernels(subgraph: Told) -> list[TerminalPart]:
    notes = Footnotes()
    columns: list[Column[Told]] = [
        Column("nodes", lambda kernel: Name(_title(kernel["user_names"])), wraps=True),
        Column("layer", lambda kernel: kernel["layer"]),
        Column("operators", lambda kernel: ", ".join(kernel["operators"]), wraps=True),
        Column("shape", lambda kernel: "x".join(map(str, kernel["shape"]))),
        Column("beyond", lambda kernel: ", ".join(notes.number(reason) for reason in kernel["beyond_public"])),
    ]
    return [ReportTable(f"Layers of {subgraph['symbol']}", columns, subgraph["kernels"]), notes]


def _host(host: Sequence[Told]) -> list[TerminalPart]:
    notes = Footnotes()
    columns: list[Column[Told]] = [
        Column("node", lambda each: Name(each["name"] + (" (added)" if each["added"] else "")), wraps=True),
        Column("operator", lambda each: each["operator"] if each["added"] else f"{each['kind']} ({each['operator']})"),
        Column("check", lambda each: each["check"]),
        Column("why", lambda each: notes.number(_reason(each))),
    ]
    return [ReportTable("Host", columns, host), notes]


def _reason(each: Told) -> str:
    hint = f"; {each['hint']}" if each["hint"] else ""
    return f"{each['code']}: got {each['got']}, expected {each['allowed']}{hint}"


def compilation_parts(network: CompiledNetwork, folder: Path, files: Sequence[str]) -> list[TerminalPart]:
    """Say which layers each binary has, where they run, and what they cost. ``files`` were written to the folder."""
    target, profile = network.request.target, network.request.profile
    hosts = [step.name for step in network.host]
    parts: list[TerminalPart] = [
        f"{network.model.name}: {_some(len(network.binaries), 'binary', 'binaries')} for at most "
        f"{_some(target.num_tiles, 'tile')}; {_some(len(hosts), 'operator')} on the host"
        + (f": {', '.join(hosts)}" if hosts else "")
    ]
    pinned = ", weights pinned" if target.wb_pin_ocm else ""
    for binary in network.binaries:
        made = binary.compiled
        parts += [
            _perf_layers(binary.report),
            f"{binary.symbol}: {binary.quantize} on {made.program.tiles} tiles{pinned}; {len(made.binary):,} bytes; "
            f"modelled {made.cycles:,} cycles, {profile.nanoseconds(made.cycles) / 1000:,.1f} µs by profile "
            f"{profile.name}",
        ]
    return [*parts, f"written to {folder}: {', '.join(files)}"]


def _split_word(split: str, tiles: int, spills: bool) -> str:
    """Say how a layer is divided. One that no tile computes is another view of its input's bytes."""
    if not tiles:
        return "a view"
    return split + (", spills" if spills else "")


def simulation_parts(network: CompiledNetwork, result: SimulationResult) -> list[TerminalPart]:
    """Say what came out, and the times."""
    parts: list[TerminalPart] = [
        f"{symbol}: modelled {run.timeline.total:,} cycles, {run.hardware_ns / 1000:,.1f} µs, and "
        f"{run.firmware_ns / 1000:,.1f} µs of firmware by profile {network.request.profile.name}"
        for symbol, run in result.runs.items()
    ]
    for name, array in result.outputs.items():
        values = np.array2string(array.reshape(-1)[:_SHOWN], precision=4, separator=" ", max_line_width=sys.maxsize)
        more = f" … {array.size - _SHOWN} more" if array.size > _SHOWN else ""
        parts.append(f"{name} {array.dtype} {describe(array.shape)}: {values}{more}")
    return parts


def perf_parts(perf: NetworkPerf) -> list[TerminalPart]:
    """Say where the time goes: layers, tiles and sums."""
    parts = [part for binary in perf.binaries for part in report_parts(binary.report)]
    return [*parts, f"{perf.model}: {_totals(perf)}", _bounds(perf), *([_host_line(perf)] if perf.host else [])]


def report_parts(report: PerfReport) -> list[TerminalPart]:
    """Say what the layers, the tiles and the DMA engine of a binary do."""
    dma = report.dma
    start = f"; pinned weights are loaded once, in {report.start_cycles:,}" if report.start_cycles else ""
    spent = f"DMA: {dma.busy:,} cycles busy, {dma.waiting:,} waiting, {dma.idle:,} idle, of {report.total:,}{start}"
    return [_perf_layers(report), _tiles(report), spent]


def _host_line(perf: NetworkPerf) -> str:
    """Say what the host computes, and the time from the inputs to the outputs."""
    return (
        f"the host computes {', '.join(perf.host)}, modelled {perf.host_ns / 1000:,.1f} µs: from its inputs to its "
        f"outputs a run takes {perf.whole_ns / 1000:,.1f} µs"
    )


def perf_page(network: CompiledNetwork) -> str:
    """Return a whole HTML document."""
    perf = network_perf(network)
    sections: list[tuple[str, Sequence[PagePart]]] = [("Summary", (_sums(perf), _note(perf)))]
    for binary in network.binaries:
        of = f" of {binary.symbol}" if len(network.binaries) > 1 else ""
        report = binary.report
        sections += [
            (f"Layers{of}", (_perf_layers(report),)),
            (f"Tiles{of}", (_tiles(report),)),
            (f"Memory{of} over time", _memory(binary)),
        ]
    sections.append(("Profile", (_profile(asdict(network.request.profile)),)))
    return report_page(f"{perf.model} on MLIP, modelled", sections)


def _totals(perf: NetworkPerf) -> str:
    return (
        f"modelled {perf.cycles:,} cycles, {perf.hardware_ns / 1000:,.1f} µs at {perf.clock_hz / 1e9:g} GHz by profile "
        f"{perf.profile}, and {perf.firmware_ns / 1000:,.1f} µs of firmware; {perf.macs:,} MACs, {perf.ddr_bytes:,} "
        "bytes of DDR"
    )


def _bounds(perf: NetworkPerf) -> str:
    times = f", of which this is {perf.cycles / perf.least:.2f} times" if perf.least else ""
    return f"no schedule takes less than {perf.least:,} cycles: full arrays, and DDR without a pause{times}"


def _sums(perf: NetworkPerf) -> FigureCards:
    at_clock = f"{perf.cycles:,} cycles at {perf.clock_hz / 1e9:g} GHz"
    firmware = f"{len(perf.binaries)} starts, apart from the time"
    on_host = f"{perf.host_ns / 1000:,.1f} µs on the host"
    cards = [
        Figure("Time (modelled)", f"{perf.hardware_ns / 1000:,.1f} µs", at_clock),
        Figure("Firmware (modelled)", f"{perf.firmware_ns / 1000:,.1f} µs", firmware),
        Figure("From inputs to outputs", f"{perf.whole_ns / 1000:,.1f} µs", on_host),
        Figure("No schedule takes less than", f"{perf.least:,} cycles", "full arrays, and DDR without a pause"),
        Figure("Multiply-adds", f"{perf.macs:,}", f"{perf.macs / perf.cycles:,.1f} in a cycle" if perf.cycles else ""),
        Figure("Bytes of DDR", f"{perf.ddr_bytes:,}", "read and written in a run"),
    ]
    return FigureCards(cards)


def _note(perf: NetworkPerf) -> str:
    host = f" {_host_line(perf).replace('the', 'The', 1)}." if perf.host else ""
    guesses = f"Every time here is modelled by the profile {perf.profile}, whose figures are guesses"
    return f"{guesses}: {_bounds(perf)}.{host}"


def _perf_layers(report: PerfReport) -> ReportTable[LayerPerf]:
    columns: list[Column[LayerPerf]] = [
        Column("nodes", lambda layer: Name(_title(layer.user_names)), wraps=True),
        Column("layer", lambda layer: layer.kind),
        Column("split", lambda layer: _split_word(layer.split, layer.tiles_used, layer.spills)),
        Column("tiles", lambda layer: f"{layer.tiles_used}", number=True),
        Column("stripes", lambda layer: f"{layer.stripes}", number=True),
        Column("begin", lambda layer: f"{layer.begin:,}", number=True, only=Medium.TERMINAL),
        Column("cycles", lambda layer: f"{layer.cycles:,}", number=True),
        Column("of peak", lambda layer: f"{layer.utilisation:.1%}" if layer.counters.macs else "", number=True),
        Column("DMA", lambda layer: f"{layer.dma.busy:,}", number=True, page_header="DMA cycles"),
        Column("pages", lambda layer: f"{max(layer.pages, default=0)}", number=True, only=Medium.TERMINAL),
        Column("DDR", lambda layer: f"{layer.counters.ddr_bytes:,}", number=True, page_header="DDR bytes"),
        Column("bound by", _bound),
    ]
    caption = "The layers in their order. Cycles are those of the tiles, with their waits; DMA works beside them."
    return ReportTable(f"Layers of {report.program} (modelled)", columns, report.layers, "layers", caption)


def _bound(layer: LayerPerf) -> Mark:
    spent = sorted(layer.bound_cycles.items(), key=lambda one: -one[1])
    return Mark(layer.bound, ", ".join(f"{name} {count:,}" for name, count in spent))


class _Tile(NamedTuple):
    number: int
    use: TileUsage
    pages: int


def _tiles(report: PerfReport) -> ReportTable[_Tile]:
    total = max(report.total, 1)
    columns: list[Column[_Tile]] = [
        Column("tile", lambda tile: str(tile.number), only=Medium.TERMINAL),
        Column("tile", lambda tile: f"tile {tile.number}", only=Medium.PAGE),
        Column("array busy", lambda tile: f"{tile.use.array / total:.1%}", number=True, only=Medium.PAGE),
        Column("irregular busy", lambda tile: f"{tile.use.irregular / total:.1%}", number=True, only=Medium.PAGE),
        Column("array", lambda tile: f"{tile.use.array:,}", number=True),
        Column("irregular", lambda tile: f"{tile.use.irregular:,}", number=True),
        Column("issue", lambda tile: f"{tile.use.issue:,}", number=True, only=Medium.TERMINAL),
        Column("copies", lambda tile: f"{tile.use.copying:,}", number=True, only=Medium.TERMINAL),
        Column("wait DMA", lambda tile: f"{tile.use.waiting_transfers:,}", number=True),
        Column("wait tiles", lambda tile: f"{tile.use.waiting_tiles:,}", number=True),
        Column("barrier", lambda tile: f"{tile.use.barrier:,}", number=True, only=Medium.TERMINAL),
        Column("idle", lambda tile: f"{tile.use.idle:,}", number=True),
        Column("pages", lambda tile: f"{tile.pages:,}", number=True),
    ]
    tiles = [_Tile(number, *each) for number, each in enumerate(zip(report.by_tile, report.pages, strict=True))]
    caption = f"Cycles of {report.total:,}, and pages of {report.page_bytes // 1024} KiB that are touched."
    return ReportTable(f"Cycles of the tiles of {report.program} (modelled)", columns, tiles, "tiles", caption)


def _memory(binary: CompiledBinary) -> tuple[PagePart, ...]:
    groups = list(alike_tiles(uses_by_tile(binary.compiled.memory, binary.times)).items())
    if not groups:
        return ("Nothing lies in the tiles' memory.",)
    first, *others = (
        (
            _tiles_word(tiles).capitalize(),
            Picture(
                f"Memory of {_tiles_word(tiles)}",
                _tile_memory(uses, tiles, f"{binary.symbol}-{tiles[0]}"),
            ),
        )
        for uses, tiles in groups
    )
    note = "Each bar is what some bytes hold, from the stage in which they arrive to the last one that reads them."
    return (note, Markup(f"<h3>{first[0]}</h3>"), first[1], *(Folded(tiles, (picture,)) for tiles, picture in others))


def _profile(profile: Mapping[str, int | str]) -> ReportTable[tuple[str, int]]:
    rows = [(name, value) for name, value in profile.items() if isinstance(value, int)]
    columns: list[Column[tuple[str, int]]] = [
        Column("figure", lambda row: row[0]),
        Column("value", lambda row: f"{row[1]:,}", number=True),
    ]
    caption = f"The figures of {profile['name']}. Nothing public gives them: each is a guess."
    return ReportTable("Profile", columns, rows, "profile", caption)


def _tile_memory(uses: Sequence[OcmUse], tiles: Sequence[int], name: str) -> Drawing:
    """Draw addresses upwards and modelled cycles to the right. ``name`` is the picture's own on its page."""
    figure = admin_pb2.MemoryFigure(
        name=f"The memory of {_tiles_word(tiles)}",
        limit_bytes=OCM_BYTES,
        unit="cycles (modelled)",
        spans=[
            admin_pb2.MemorySpan(
                name=use.what,
                address=use.start,
                bytes=use.stop - use.start,
                begin=use.begin,
                end=use.end,
                kind="pinned weights" if use.pinned else use.what.partition(" ")[0],
            )
            for use in uses
        ],
    )
    return memory_chart(figure, name)


def _tiles_word(tiles: Sequence[int]) -> str:
    """Such as ``tile 3``, or ``tiles 0, 1 and 2``."""
    if len(tiles) == 1:
        return f"tile {tiles[0]}"
    return f"tiles {', '.join(map(str, tiles[:-1]))} and {tiles[-1]}"
