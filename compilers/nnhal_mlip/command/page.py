"""The modelled time of a network as one HTML page: no script, and nothing that is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from nnhal.v1 import admin_pb2
from nnhal_mlip.command.layer_words import layer_title
from nnhal_mlip.command.perf_story import BinaryPerf, NetworkPerf
from nnhal_mlip.command.pictures.roofline import roofline_drawing
from nnhal_mlip.command.pictures.tile_time import tile_time_drawing
from nnhal_mlip.command.tables import bounds, split_word
from nnhal_mlip.compiler.memory_map import OcmUse, TileMemoryRange, alike_tiles, uses_by_tile
from nnhal_mlip.program.program import OCM_BYTES
from nnhal_mlip.simulator.report import LayerPerf, PerfReport
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_pages.charts.memory import memory_chart
from nnhal_pages.document import document, style
from nnhal_pages.svg import Drawing, drawing_style
from nnhal_pages.tables import short_name, stacking_table

MemoryMaps = Mapping[str, Sequence[TileMemoryRange]]
"""The memory map of each binary, by its symbol."""


def perf_page(
    perf: NetworkPerf, simulators: Mapping[str, Simulator], maps: MemoryMaps, profile: Mapping[str, int | str]
) -> str:
    """Return a whole HTML document."""
    sections = [("Summary", _sums(perf))]
    for binary in perf.binaries:
        of = f" of {binary.symbol}" if len(perf.binaries) > 1 else ""
        sections += [
            (f"Roofline{of}", _roofline(binary)),
            (f"Layers{of}", _layers(binary.report)),
            (f"Tiles{of}", _tiles(binary.report)),
            (f"Memory{of} over time", _memory(simulators[binary.symbol], maps[binary.symbol])),
        ]
    sections.append(("Profile", _profile(profile)))
    content = "".join(f"<section><h2>{escape(title)}</h2>{text}</section>" for title, text in sections)
    return document(f"{perf.model} on MLIP, modelled", content, style() + drawing_style() + page_style())


@cache
def page_style() -> str:
    """Return the style sheet of this page alone."""
    return files("nnhal_mlip.command").joinpath("page.css").read_text()


def _sums(perf: NetworkPerf) -> str:
    figures = [
        (
            "Time (modelled)",
            f"{perf.hardware_ns / 1000:,.1f} µs",
            f"{perf.cycles:,} cycles at {perf.clock_hz / 1e9:g} GHz",
        ),
        (
            "Firmware (modelled)",
            f"{perf.firmware_ns / 1000:,.1f} µs",
            f"{len(perf.binaries)} starts, apart from the time",
        ),
        ("No schedule takes less than", f"{perf.least:,} cycles", "full arrays, and DDR without a pause"),
        ("Multiply-adds", f"{perf.macs:,}", f"{perf.macs / perf.cycles:,.1f} in a cycle" if perf.cycles else ""),
        ("Bytes of DDR", f"{perf.ddr_bytes:,}", "read and written in a run"),
    ]
    cards = "".join(
        f"<div><dt>{escape(name)}</dt><dd class='figure'>{escape(figure)}</dd>"
        f"<dd class='small'>{escape(more)}</dd></div>"
        for name, figure, more in figures
    )
    host = f" The host computes {', '.join(perf.host)}, in times that are not modelled." if perf.host else ""
    note = (
        f"Every time here is modelled by the profile {perf.profile}, whose figures are guesses: {bounds(perf)}.{host}"
    )
    return f"<dl class='sums'>{cards}</dl><p class='note'>{escape(note)}</p>"


def _roofline(binary: BinaryPerf) -> str:
    if not binary.roofline.layers:
        return "<p class='note'>No layer has products.</p>"
    return (
        "<p class='note'>Each point is a layer with products. The line is the most that DDR and the arrays allow, the "
        "dashed one the most that the irregular units allow. The filled point is the whole binary. Point at one, or "
        "reach it with the tabulator key, for its figures.</p>"
        + _scroll(f"Roofline of {binary.symbol}", roofline_drawing(binary.roofline))
    )


def _layers(report: PerfReport) -> str:
    header = ("Nodes", "Layer", "Split", "Tiles", "Stripes", "Cycles", "Of peak", "DMA cycles", "DDR bytes", "Bound by")
    rows = [_layer(layer) for layer in report.layers]
    caption = "The layers in their order. Cycles are those of the tiles, with their waits; DMA works beside them."
    return stacking_table("layers", caption, header, rows, {3, 4, 5, 6, 7, 8})


def _layer(layer: LayerPerf) -> tuple[str, ...]:
    bound = ", ".join(
        f"{name} {count:,}" for name, count in sorted(layer.bound_cycles.items(), key=lambda one: -one[1])
    )
    return (
        short_name(layer_title(layer.user_names, "(added)")),
        escape(layer.kind),
        split_word(layer.split, layer.tiles_used, layer.spills),
        f"{layer.tiles_used}",
        f"{layer.stripes}",
        f"{layer.cycles:,}",
        f"{layer.utilisation:.1%}" if layer.counters.macs else "",
        f"{layer.dma.busy:,}",
        f"{layer.counters.ddr_bytes:,}",
        f"<span title='{escape(bound)}'>{escape(layer.bound)}</span>",
    )


def _tiles(report: PerfReport) -> str:
    rows = [
        (
            f"tile {tile}",
            f"{use.array / max(report.total, 1):.1%}",
            f"{use.irregular / max(report.total, 1):.1%}",
            *(f"{count:,}" for count in (use.array, use.irregular, use.waiting_transfers, use.waiting_tiles, use.idle)),
            f"{pages}",
        )
        for tile, (use, pages) in enumerate(zip(report.by_tile, report.pages, strict=True))
    ]
    header = ("Tile", "Array busy", "Irregular busy", "Array", "Irregular", "Wait DMA", "Wait tiles", "Idle", "Pages")
    caption = f"Cycles of {report.total:,}, and pages of {report.page_bytes // 1024} KiB that are touched."
    table = stacking_table("tiles", caption, header, rows, set(range(1, len(header))))
    return _scroll(f"Time of the tiles of {report.program}", tile_time_drawing(report)) + table


def _memory(simulator: Simulator, ranges: Sequence[TileMemoryRange]) -> str:
    groups = list(alike_tiles(uses_by_tile(ranges, simulator.timeline)).items())
    if not groups:
        return "<p class='note'>Nothing lies in the tiles' memory.</p>"
    pictures = [
        _scroll(
            f"Memory of {tiles_word(tiles)}", tile_memory_drawing(uses, tiles, f"{simulator.program.name}-{tiles[0]}")
        )
        for uses, tiles in groups
    ]
    parts = [f"<h3>{tiles_word(groups[0][1]).capitalize()}</h3>{pictures[0]}"]
    parts += [
        f"<details><summary>{tiles_word(tiles).capitalize()}</summary>{picture}</details>"
        for (_, tiles), picture in zip(groups[1:], pictures[1:], strict=True)
    ]
    note = "Each bar is what some bytes hold, from the stage in which they arrive to the last one that reads them."
    return f"<p class='note'>{note}</p>{''.join(parts)}"


def _profile(profile: Mapping[str, int | str]) -> str:
    rows = [(escape(name), f"{value:,}") for name, value in profile.items() if isinstance(value, int)]
    caption = f"The figures of {escape(str(profile['name']))}. Nothing public gives them: each is a guess."
    return stacking_table("profile", caption, ("Figure", "Value"), rows, {1})


def _scroll(name: str, drawing: Drawing) -> str:
    return f"<div class='scroll' role='region' aria-label='{escape(name)}' tabindex='0'>{drawing.embedded()}</div>"


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
