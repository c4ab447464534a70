"""Parts of a duration: one bar of parts, with their words below it."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal_pages.charts.looks import legend, work_looks
from nnhal_pages.charts.measures import NANOSECONDS
from nnhal_pages.patterns import patterns
from nnhal_pages.svg import Drawing, Scale, element, title

_BAR = 22


def split_chart(what: str, parts: Mapping[str, float], name: str, width: int = 560) -> Drawing:
    """Draw a duration from its parts in nanoseconds, which follow one another. Parts that took no time have no bar.

    ``name`` begins the ids of patterns: it is the chart's own on its page.
    """
    looks = work_looks(parts)
    total = sum(parts.values())
    words = {part: f"{part} {NANOSECONDS.words(took)}" for part, took in parts.items()}
    across = Scale(0, max(total, 1.0), 8, width - 8)
    content = [patterns(name, looks.values())]
    begin = 0.0
    for part, took in parts.items():
        if took > 0:
            tip = title(f"{words[part]}, {took / total:.0%}")
            box = {"x": across(begin), "y": 4, "width": across(begin + took) - across(begin), "height": _BAR}
            content.append(
                element("rect", tip, class_=f"span {looks[part].class_}", fill=looks[part].fill(name), **box)
            )
        begin += took
    key = legend({words[part]: looks[part] for part in parts}, name, 8, width - 8, _BAR + 14)
    height = round(_BAR + 14 + key.height)
    tip = f"{what}: {NANOSECONDS.words(total)}, of which {', '.join(words.values()) or 'nothing is known'}"
    return Drawing(width, height, tip, "".join(content) + key.content)
