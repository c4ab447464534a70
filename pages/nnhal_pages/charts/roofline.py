"""Layers under the roof of the hardware: both axes are logarithmic."""

from __future__ import annotations

from nnhal.v1 import admin_pb2
from nnhal_pages.charts.frame import LINE, Frame, across_axis, room_for, up_axis
from nnhal_pages.charts.measures import LogScale
from nnhal_pages.charts.points import point
from nnhal_pages.svg import Drawing, element, label, rounded

_HEIGHT = 340
_APART = 48
"""Where points lie that move no bytes: so far to the right of the frame."""
_Figure = admin_pb2.RooflineFigure


def roofline_chart(figure: admin_pb2.RooflineFigure, width: int = 900) -> Drawing:
    """Draw operations by byte to the right and operations by cycle upwards. Each layer with a rate is a point."""
    layers = [layer for layer in figure.layers if layer.rate > 0]
    ridge = figure.peak / figure.bandwidth if figure.bandwidth > 0 else 1.0
    up = LogScale([figure.peak * 1.01, *(layer.rate for layer in layers)], 2 * LINE + _HEIGHT, 2 * LINE)
    rates = list(up.ticks())
    frame = Frame(room_for(tick.text for tick in rates), width - 2 * _APART, up.scale.end, up.scale.start)
    intensities = [layer.intensity for layer in layers if layer.intensity > 0]
    across = LogScale([ridge, ridge * 2, *intensities], frame.left, frame.right)
    middle = (frame.left + frame.right) / 2
    parts = [
        up_axis(frame, up.scale, rates),
        across_axis(frame, across.scale, across.ticks(), has_grid=True),
        label(middle, frame.bottom + 2.6 * LINE, f"{figure.unit}s for each byte", "middle"),
        label(8, LINE, f"{figure.unit}s in a cycle"),
        _roof(figure, ridge, across, up, frame) if figure.peak > 0 and figure.bandwidth > 0 else "",
    ]
    if len(intensities) < len(layers):
        parts.append(label(frame.right + _APART, frame.bottom + LINE + 2, "no bytes", "muted middle"))
    if not layers:
        parts.append(label(middle, frame.top + _HEIGHT / 2, "no layer has a rate", "muted middle over"))
    for layer in layers:
        x = across(layer.intensity) if layer.intensity > 0 else frame.right + _APART
        parts.append(point(_words(layer, figure), x, up(layer.rate), width))
    told = f"{len(layers)} layers under a roof of {figure.peak:,.4g} {figure.unit}s in a cycle"
    return Drawing(width, round(frame.bottom + 3 * LINE), told, "".join(parts), interactive=bool(layers))


def _roof(figure: _Figure, ridge: float, across: LogScale, up: LogScale, frame: Frame) -> str:
    """The slope of the memory up to the peak, which goes on to where layers without bytes are."""
    least = max(across.least, up.least / figure.bandwidth)
    start = f"M{rounded(across(least))} {rounded(up(least * figure.bandwidth))}"
    path = f"{start}L{rounded(across(ridge))} {rounded(up(figure.peak))}H{rounded(frame.right + _APART)}"
    text = f"at most {figure.peak:,.4g} {figure.unit}s in a cycle"
    return element("path", class_="steps", d=path) + label(frame.right, up(figure.peak) - 6, text, "end over")


def _words(layer: admin_pb2.RooflineLayer, figure: _Figure) -> tuple[str, ...]:
    roof = min(figure.peak, layer.intensity * figure.bandwidth) if layer.intensity > 0 else figure.peak
    share = f", {layer.rate / roof:.0%} of its roof" if roof > 0 else ""
    moved = f"{layer.intensity:,.4g} {figure.unit}s for each byte" if layer.intensity > 0 else "no bytes moved"
    return layer.name, f"{layer.rate:,.4g} {figure.unit}s in a cycle{share}", moved
