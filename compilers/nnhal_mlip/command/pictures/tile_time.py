"""What each tile and the DMA engine do with the cycles of a run: a bar for each."""

from __future__ import annotations

from nnhal_mlip.simulator.report import PerfReport
from nnhal_pages.svg import Drawing, Scale, element, label, title, width_of

_WIDTH = 960
_LEFT, _RIGHT = 72, 880
_ROW, _BAR = 26, 18
_HEAD = 36
_PARTS = (
    ("tasks", "lane-1 buffer"),
    ("issue", "lane-2 buffer"),
    ("copies", "lane-3 buffer"),
    ("waits for DMA", "lane-5 buffer"),
    ("waits for tiles", "lane-4 buffer"),
    ("barriers", "lane-6 buffer"),
    ("idle", "box"),
)


def tile_time_drawing(report: PerfReport) -> Drawing:
    """Draw a bar of cycles for each tile, and one for the DMA engine."""
    across = Scale(0, max(report.total, 1), _LEFT, _RIGHT)
    rows = [
        (
            f"tile {tile}",
            (
                use.computing,
                use.issue,
                use.copying,
                use.waiting_transfers,
                use.waiting_tiles,
                use.barrier,
                use.idle,
            ),
        )
        for tile, use in enumerate(report.by_tile)
    ]
    dma = report.dma
    rows.append(("DMA", (dma.busy, 0, 0, 0, dma.waiting, 0, dma.idle)))
    parts = [_legend()]
    for number, (name, cycles) in enumerate(rows):
        parts.append(_row(name, cycles, _HEAD + number * _ROW, across, report.total))
    height = _HEAD + len(rows) * _ROW + 12
    text = f"What the tiles and the DMA engine of {report.program} do with {report.total:,} modelled cycles"
    return Drawing(_WIDTH, height, text, "".join(parts))


def _legend() -> str:
    parts = []
    x = float(_LEFT)
    for name, look in _PARTS:
        parts.append(element("rect", class_=look, x=x, y=8, width=12, height=12))
        parts.append(label(x + 17, 18, name, "muted"))
        x += 17 + width_of(name) + 18
    return "".join(parts)


def _row(name: str, cycles: tuple[int, ...], y: int, across: Scale, total: int) -> str:
    parts = [label(_LEFT - 8, y + 13, name, "end")]
    start = 0
    for (what, look), count in zip(_PARTS, cycles, strict=True):
        if count:
            left, right = across(start), across(start + count)
            told = title(f"{name}, {what}: {count:,} cycles, {count / max(total, 1):.1%}")
            parts.append(element("rect", told, class_=look, x=left, y=y, width=max(right - left, 0.1), height=_BAR))
        start += count
    parts.append(label(_RIGHT + 8, y + 13, f"{cycles[0] / max(total, 1):.0%} busy"))
    return "".join(parts)
