"""Elements of SVG, and scales."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import ceil, floor, log10

from nnhal_pages.document import palette
from nnhal_pages.text import escaped

_CHARACTER = 6.8
"""The width of a character of small text, on average, in units of a picture."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to positions."""

    low: float
    high: float
    start: float
    """The position of ``low``."""
    end: float
    """The position of ``high``."""

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int) -> Iterator[float]:
        """Yield about ``count`` round values from ``low`` to ``high``."""
        rough = (self.high - self.low) / count
        power = 10 ** floor(log10(rough))
        step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
        for number in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1):
            yield number * step


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture: SVG below an element ``svg``."""

    width: int
    height: int
    title: str
    """What it shows, for those who do not see it."""
    content: str
    interactive: bool = False
    """True if parts of it can be focused."""

    def embedded(self) -> str:
        """Return the picture for a page that has ``drawing_style()``. No attribute of it is a style."""
        role = "group" if self.interactive else "img"
        return (
            f"<svg class='drawing' role='{role}' aria-label='{escaped(self.title)}' "
            f"viewBox='0 0 {self.width} {self.height}' width='{self.width}' height='{self.height}'>{self.content}</svg>"
        )

    def document(self) -> str:
        """Return the picture as a file of its own."""
        ground = element("rect", class_="ground", width="100%", height="100%")
        return (
            "<svg xmlns='http://www.w3.org/2000/svg' class='nnhal-plan drawing' "
            f"viewBox='0 0 {self.width} {self.height}' width='{self.width}' height='{self.height}'>"
            f"<title>{escaped(self.title)}</title>"
            f"<style>{palette()}{drawing_style()}</style>{ground}{self.content}</svg>\n"
        )


@cache
def drawing_style() -> str:
    """Return the style sheet of pictures, graphs of plans, and charts."""
    folder = files("nnhal_pages")
    sheets = (("drawing.css",), ("graph", "graph.css"), ("charts", "charts.css"))
    return "".join(folder.joinpath(*path).read_text() for path in sheets)


def element(tag: str, content: str = "", **attributes: object) -> str:
    """Return an element. ``content`` is markup; ``class_`` is the attribute class, ``stroke_width`` stroke-width."""
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}='{escaped(_number(value))}'" for name, value in attributes.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def label(x: float, y: float, text: str, class_: str = "", **attributes: object) -> str:
    return element("text", escaped(text), x=x, y=y, class_=f"label {class_}".strip(), **attributes)


def title(*lines: str) -> str:
    """Return what is shown beside the pointer, and read aloud."""
    return element("title", "\n".join(map(escaped, lines)))


def width_of(text: str) -> float:
    """About how wide a line of small text is."""
    return len(text) * _CHARACTER


def lanes(names: Iterable[str]) -> dict[str, str]:
    """Return a class of colour for each name. Neighbours have different ones."""
    return {name: f"lane-{number % 6 + 1}" for number, name in enumerate(names)}


def rounded(value: float) -> str:
    """A coordinate, with one decimal if it needs one."""
    return f"{value:.1f}".removesuffix(".0")


def _number(value: object) -> str:
    return rounded(value) if isinstance(value, float) else str(value)
