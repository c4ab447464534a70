"""The layers of a binary under the roofs of the profile: both axes are logarithmic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from nnhal_devices.mlip.simulator.roofline import ProgramRoofline, RooflinePoint
from nnhal_tools.cascade.pictures.svg import Drawing, Scale, element, label, rounded, title, width_of
from nnhal_tools.mlip.layer_words import layer_title
from nnhal_tools.names import shortened

_WIDTH, _HEIGHT = 960, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 860, 32, 420
_NO_DDR = 908
"""Where layers are drawn that move nothing between DDR and the tiles."""
_NAME = 48


class _LogScale:
    """From positive values to positions, by their magnitudes."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.low = floor(log10(min(values)))
        self.high = max(ceil(log10(max(values))), self.low + 1)
        self._scale = Scale(self.low, self.high, start, end)

    def __call__(self, value: float) -> float:
        return self._scale(log10(value))

    def ticks(self) -> Iterator[int]:
        """Yield the powers of ten."""
        yield from range(self.low, self.high + 1)


def roofline_drawing(found: ProgramRoofline) -> Drawing:
    """Draw MACs by byte of DDR to the right and MACs by cycle upwards."""
    shown = [point for point in found.layers if point.rate > 0]
    intensities = [point.intensity for point in shown if point.intensity]
    across = _LogScale([found.ridge, found.ridge * 2, *intensities], _LEFT, _RIGHT)
    up = _LogScale([found.peak * 1.01, *(point.rate for point in shown)], _BOTTOM, _TOP)
    parts = [
        _axes(across, up),
        _roofs(found, across, up),
        *(_point(point, across, up, False) for point in shown),
    ]
    if found.program.rate > 0 and found.program.intensity:
        parts.append(_point(found.program, across, up, True))
    text = f"The layers of {found.program.name} under the roofs of profile {found.profile}, modelled"
    return Drawing(_WIDTH, _HEIGHT, text, "".join(parts), interactive=True)


def _axes(across: _LogScale, up: _LogScale) -> str:
    parts = []
    for power in across.ticks():
        x = across(10.0**power)
        parts.append(element("line", class_="grid", x1=x, x2=x, y1=_TOP, y2=_BOTTOM))
        parts.append(label(x, _BOTTOM + 18, f"{10.0**power:g}", "muted middle"))
    for power in up.ticks():
        y = up(10.0**power)
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y, y2=y))
        parts.append(label(_LEFT - 8, y + 4, f"{10.0**power:g}", "muted end"))
    parts.append(element("line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM))
    parts.append(label((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "MACs for each byte of DDR", "middle"))
    parts.append(label(8, _TOP - 14, "MACs in a cycle (modelled)"))
    parts.append(label(_NO_DDR, _BOTTOM + 18, "no DDR", "muted middle"))
    return "".join(parts)


def _roofs(found: ProgramRoofline, across: _LogScale, up: _LogScale) -> str:
    """The roof of the arrays with the slope of DDR, and the roof of the irregular units."""
    least = max(10.0**across.low, 10.0**up.low / found.ddr_bytes)
    start = f"M{rounded(across(least))} {rounded(up(least * found.ddr_bytes))}"
    ridge = f"L{rounded(across(found.ridge))} {rounded(up(found.peak))}"
    y = up(found.peak)
    parts = [
        element("path", class_="steps", d=f"{start}{ridge}H{_NO_DDR + 24}"),
        label(_RIGHT, y - 6, f"arrays of all tiles: {found.peak:,.0f} MACs in a cycle", "end over"),
    ]
    if found.irregular_peak >= 10.0**up.low:
        low = up(found.irregular_peak)
        corner = across(max(found.irregular_peak / found.ddr_bytes, 10.0**across.low))
        parts.append(element("line", class_="limit", x1=corner, x2=_NO_DDR + 24, y1=low, y2=low))
        text = f"irregular units: {found.irregular_peak:,.0f}"
        parts.append(label(_RIGHT, low - 6, text, "limit-label end over"))
    return "".join(parts)


def _point(point: RooflinePoint, across: _LogScale, up: _LogScale, whole: bool) -> str:
    x = across(point.intensity) if point.intensity else float(_NO_DDR)
    y = up(point.rate)
    name = "the whole binary" if whole else layer_title(point.user_names, point.name)
    lines = (
        shortened(name, _NAME),
        f"{point.rate:,.1f} MACs in a cycle, {point.rate / point.roof:.0%} of its roof of {point.roof:,.0f}",
        f"{point.macs:,} MACs, {point.ddr_bytes:,} bytes of DDR, {point.cycles:,} cycles",
        f"most of its time goes to: {point.bound}",
    )
    shown = title("\n".join((name, *lines[1:])))
    shown += element("circle", class_="reach", cx=x, cy=y, r=12)
    shown += element("circle", class_="mark", cx=x, cy=y, r=6 if whole else 4) + _tip(lines, x, y)
    classes = "point chosen" if whole else "point"
    return element("g", shown, class_=classes, tabindex=0, role="img", aria_label=", ".join((name, *lines[1:])))


def _tip(lines: Sequence[str], x: float, y: float) -> str:
    width, height = max(map(width_of, lines)) + 20, 16 * len(lines) + 12
    left = x + 12 if x + 12 + width <= _WIDTH - 4 else max(x - 12 - width, 4)
    top = min(max(y - height - 8, 4), _HEIGHT - height - 4)
    texts = (label(left + 10, top + 18 + 16 * number, line) for number, line in enumerate(lines))
    box = element("rect", x=left, y=top, width=width, height=height, rx=4)
    return element("g", box + "".join(texts), class_="tip", aria_hidden="true")
