"""The layers of a binary under the roofs of the profile: both axes are logarithmic."""

from __future__ import annotations

from nnhal_mlip.command.layer_names import layer_title
from nnhal_mlip.simulator.roofline import ProgramRoofline, RooflinePoint
from nnhal_pages.charts.frame import Frame, across_axis, up_axis
from nnhal_pages.charts.measures import LogScale
from nnhal_pages.charts.points import point as marked
from nnhal_pages.svg import Drawing, element, label, rounded

_WIDTH, _HEIGHT = 960, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 860, 32, 420
_NO_DDR = 908
"""Where layers are drawn that move nothing between DDR and the tiles."""


def roofline_drawing(found: ProgramRoofline) -> Drawing:
    """Draw MACs by byte of DDR to the right and MACs by cycle upwards."""
    shown = [point for point in found.layers if point.rate > 0]
    intensities = [point.intensity for point in shown if point.intensity]
    across = LogScale([found.ridge, found.ridge * 2, *intensities], _LEFT, _RIGHT)
    up = LogScale([found.peak * 1.01, *(point.rate for point in shown)], _BOTTOM, _TOP)
    parts = [
        _axes(across, up),
        _roofs(found, across, up),
        *(_point(point, across, up, False) for point in shown),
    ]
    if found.program.rate > 0 and found.program.intensity:
        parts.append(_point(found.program, across, up, True))
    text = f"The layers of {found.program.name} under the roofs of profile {found.profile}, modelled"
    return Drawing(_WIDTH, _HEIGHT, text, "".join(parts), interactive=True)


def _axes(across: LogScale, up: LogScale) -> str:
    frame = Frame(_LEFT, _RIGHT, _TOP, _BOTTOM)
    parts = [
        up_axis(frame, up.scale, up.ticks()),
        across_axis(frame, across.scale, across.ticks(), has_grid=True),
        label((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "MACs for each byte of DDR", "middle"),
        label(8, _TOP - 14, "MACs in a cycle (modelled)"),
        label(_NO_DDR, _BOTTOM + 18, "no DDR", "muted middle"),
    ]
    return "".join(parts)


def _roofs(found: ProgramRoofline, across: LogScale, up: LogScale) -> str:
    """The roof of the arrays with the slope of DDR, and the roof of the irregular units."""
    least = max(across.least, up.least / found.ddr_bytes)
    start = f"M{rounded(across(least))} {rounded(up(least * found.ddr_bytes))}"
    ridge = f"L{rounded(across(found.ridge))} {rounded(up(found.peak))}"
    y = up(found.peak)
    parts = [
        element("path", class_="steps", d=f"{start}{ridge}H{_NO_DDR + 24}"),
        label(_RIGHT, y - 6, f"arrays of all tiles: {found.peak:,.0f} MACs in a cycle", "end over"),
    ]
    if found.irregular_peak >= up.least:
        low = up(found.irregular_peak)
        corner = across(max(found.irregular_peak / found.ddr_bytes, across.least))
        parts.append(element("line", class_="limit", x1=corner, x2=_NO_DDR + 24, y1=low, y2=low))
        text = f"irregular units: {found.irregular_peak:,.0f}"
        parts.append(label(_RIGHT, low - 6, text, "limit-label end over"))
    return "".join(parts)


def _point(point: RooflinePoint, across: LogScale, up: LogScale, whole: bool) -> str:
    x = across(point.intensity) if point.intensity else float(_NO_DDR)
    y = up(point.rate)
    name = "the whole binary" if whole else layer_title(point.user_names, point.name)
    lines = (
        name,
        f"{point.rate:,.1f} MACs in a cycle, {point.rate / point.roof:.0%} of its roof of {point.roof:,.0f}",
        f"{point.macs:,} MACs, {point.ddr_bytes:,} bytes of DDR, {point.cycles:,} cycles",
        f"most of its time goes to: {point.bound}",
    )
    return marked(lines, x, y, _WIDTH, "point chosen" if whole else "point", 6 if whole else 4)
