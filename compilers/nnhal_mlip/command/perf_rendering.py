"""The modelled time of a network in a terminal, and as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from rich.console import Console

from nnhal.v1 import admin_pb2
from nnhal_mlip.command.layer_names import layer_title
from nnhal_mlip.command.network_perf import BinaryPerf, NetworkPerf
from nnhal_mlip.command.pictures.roofline import roofline_drawing
from nnhal_mlip.command.pictures.tile_time import tile_time_drawing
from nnhal_mlip.command.rendering import split_word
from nnhal_mlip.compiler.memory_map import OcmUse, TileMemoryRange, alike_tiles, uses_by_tile
from nnhal_mlip.program.program import OCM_BYTES
from nnhal_mlip.simulator.report import LayerPerf, PerfReport
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.usage import TileUsage
from nnhal_pages.charts.memory import memory_chart
from nnhal_pages.document import Figure
from nnhal_pages.report import (
    Column,
    FigureCards,
    Folded,
    Mark,
    Markup,
    Medium,
    Name,
    PagePart,
    Picture,
    ReportTable,
    report_page,
)
from nnhal_pages.svg import Drawing
from nnhal_pages.terminal import show_parts

MemoryMaps = Mapping[str, Sequence[TileMemoryRange]]
"""The memory map of each binary, by its symbol."""


def show_perf(perf: NetworkPerf, console: Console) -> None:
    """Print layers, tiles and sums."""
    for binary in perf.binaries:
        show_report(binary.report, console)
    show_parts([f"{perf.model}: {totals(perf)}", bounds(perf)], console)
    if perf.host:
        show_parts([host_line(perf)], console)


def show_report(report: PerfReport, console: Console) -> None:
    """Print the layers and tiles of a binary."""
    dma = report.dma
    start = f"; pinned weights are loaded once, in {report.start_cycles:,}" if report.start_cycles else ""
    spent = f"DMA: {dma.busy:,} cycles busy, {dma.waiting:,} waiting, {dma.idle:,} idle, of {report.total:,}{start}"
    show_parts([_layers(report), _tiles(report), spent], console)


def host_line(perf: NetworkPerf) -> str:
    """Return what the host computes, and the time from the inputs to the outputs, in a line."""
    return (
        f"the host computes {', '.join(perf.host)}, modelled {perf.host_ns / 1000:,.1f} µs: from its inputs to its "
        f"outputs a run takes {perf.whole_ns / 1000:,.1f} µs"
    )


def perf_page(
    perf: NetworkPerf, simulators: Mapping[str, Simulator], maps: MemoryMaps, profile: Mapping[str, int | str]
) -> str:
    sections: list[tuple[str, Sequence[PagePart]]] = [("Summary", (_sums(perf), _note(perf)))]
    for binary in perf.binaries:
        of = f" of {binary.symbol}" if len(perf.binaries) > 1 else ""
        report = binary.report
        times = Picture(f"Time of the tiles of {report.program}", tile_time_drawing(report))
        sections += [
            (f"Roofline{of}", _roofline(binary)),
            (f"Layers{of}", (_layers(report),)),
            (f"Tiles{of}", (times, _tiles(report))),
            (f"Memory{of} over time", _memory(simulators[binary.symbol], maps[binary.symbol])),
        ]
    sections.append(("Profile", (_profile(profile),)))
    return report_page(f"{perf.model} on MLIP, modelled", sections, page_style())


@cache
def page_style() -> str:
    return files("nnhal_mlip.command").joinpath("page.css").read_text()


def totals(perf: NetworkPerf) -> str:
    return (
        f"modelled {perf.cycles:,} cycles, {perf.hardware_ns / 1000:,.1f} µs at {perf.clock_hz / 1e9:g} GHz by profile "
        f"{perf.profile}, and {perf.firmware_ns / 1000:,.1f} µs of firmware; {perf.macs:,} MACs, {perf.ddr_bytes:,} "
        "bytes of DDR"
    )


def bounds(perf: NetworkPerf) -> str:
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
    host = f" {host_line(perf).replace('the', 'The', 1)}." if perf.host else ""
    guesses = f"Every time here is modelled by the profile {perf.profile}, whose figures are guesses"
    return f"{guesses}: {bounds(perf)}.{host}"


def _roofline(binary: BinaryPerf) -> tuple[PagePart, ...]:
    if not binary.roofline.layers:
        return ("No layer has products.",)
    note = (
        "Each point is a layer with products. The line is the most that DDR and the arrays allow, the dashed one the "
        "most that the irregular units allow. The filled point is the whole binary. Point at one, or reach it with the "
        "tabulator key, for its figures."
    )
    return (note, Picture(f"Roofline of {binary.symbol}", roofline_drawing(binary.roofline)))


def _layers(report: PerfReport) -> ReportTable[LayerPerf]:
    columns: list[Column[LayerPerf]] = [
        Column("nodes", lambda layer: Name(layer_title(layer.user_names, "(added)")), wraps=True),
        Column("layer", lambda layer: layer.kind),
        Column("split", lambda layer: split_word(layer.split, layer.tiles_used, layer.spills)),
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


def _memory(simulator: Simulator, ranges: Sequence[TileMemoryRange]) -> tuple[PagePart, ...]:
    groups = list(alike_tiles(uses_by_tile(ranges, simulator.timeline)).items())
    if not groups:
        return ("Nothing lies in the tiles' memory.",)
    first, *others = (
        (
            tiles_word(tiles).capitalize(),
            Picture(
                f"Memory of {tiles_word(tiles)}",
                tile_memory_drawing(uses, tiles, f"{simulator.program.name}-{tiles[0]}"),
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


def tile_memory_drawing(uses: Sequence[OcmUse], tiles: Sequence[int], name: str) -> Drawing:
    """Draw addresses upwards and modelled cycles to the right. ``name`` is the picture's own on its page."""
    figure = admin_pb2.MemoryFigure(
        name=f"The memory of {tiles_word(tiles)}",
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


def tiles_word(tiles: Sequence[int]) -> str:
    """Return ``tile 3``, or ``tiles 0, 1 and 2``."""
    if len(tiles) == 1:
        return f"tile {tiles[0]}"
    return f"tiles {', '.join(map(str, tiles[:-1]))} and {tiles[-1]}"
