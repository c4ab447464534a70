"""How straight a line is, and a plot of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Line:
    """The line of least squares through points."""

    slope: float
    intercept: float
    r_squared: float
    """The part of the variance that the line explains: 1 if all points lie on it."""


def fitted(points: Sequence[tuple[float, float]]) -> Line:
    """Fit a line. Raises ValueError if all points have one x."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        raise ValueError(f"no line through {count} points of one x: expected at least two")
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    intercept = mean_y - slope * mean_x
    total = sum((y - mean_y) ** 2 for _, y in points)
    rest = sum((y - intercept - slope * x) ** 2 for x, y in points)
    return Line(slope, intercept, 1 - rest / total if total else 1.0)


_WIDTH, _HEIGHT, _LEFT, _BELOW, _EDGE = 560, 340, 56, 44, 24
_STYLE = (
    "text{font:12px sans-serif;fill:#333}line,path{stroke:#999;fill:none}.fit{stroke:#0b6bcb}circle{fill:#0b6bcb}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.fit{stroke:#6cb4ff}circle{fill:#6cb4ff}}"
)


def plot(points: Sequence[tuple[float, float]], line: Line, x_label: str, y_label: str, title: str) -> str:
    """Return an SVG picture of points from 0 on, with a line through them."""
    right, top = _ceiling(max(x for x, _ in points)), _ceiling(max(y for _, y in points))

    def at(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + x / right * (_WIDTH - _LEFT - _EDGE)
        return round(across, 1), round(_HEIGHT - _BELOW - y / top * (_HEIGHT - _BELOW - 2 * _EDGE), 1)

    (left, bottom), (end_x, end_y) = at(0, 0), at(right, top)
    parts = [f'<path d="M{left} {end_y}V{bottom}H{end_x}"/>']
    for step in range(1, 6):
        x, y = at(right * step / 5, 0)[0], at(0, top * step / 5)[1]
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{right * step / 5:g}</text>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{top * step / 5:g}</text>')
    last = max(x for x, _ in points)
    (x1, y1), (x2, y2) = at(0, max(0.0, line.intercept)), at(last, line.intercept + line.slope * last)
    parts.append(f'<line class="fit" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    for x, y in points:
        across, up = at(x, y)
        parts.append(f'<circle cx="{across}" cy="{up}" r="4"><title>{x:g}: {y:.3g}</title></circle>')
    parts.append(f'<text x="{(left + end_x) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text x="{left + 8}" y="{end_y + 4}">{escape(y_label)}</text>')
    view = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
    return f"{view}<title>{escape(title)}</title><style>{_STYLE}</style>{''.join(parts)}</svg>\n"


def _ceiling(value: float) -> float:
    """A number at least as large that is 1, 2 or 5 times a power of ten."""
    power = 10.0 ** len(str(int(value))) if value >= 1 else 1.0
    while power / 10 >= value > 0:
        power /= 10
    return next(power / 10 * step for step in (1, 2, 5, 10) if power / 10 * step >= value)
