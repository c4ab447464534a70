"""The on-chip memory of a tile over time: which bytes hold what, from when to when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nnhal_devices.mlip.program.program import OCM_BYTES
from nnhal_devices.mlip.timing.queues import ProgramTimeline
from nnhal_tools.cascade.pictures.svg import Drawing, Scale, element, label, lanes, rounded, title, width_of
from nnhal_tools.names import shortened

_WIDTH, _HEIGHT = 1100, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 1084, 28, 262
_LEAST_NAME = 8
_KIB = 1024


class OcmUse(NamedTuple):
    """Bytes of a tile's memory that hold one thing for some time."""

    start: int
    stop: int
    begin: int
    """Cycles."""
    end: int
    what: str
    pinned: bool


def uses_by_tile(ranges: Iterable[Mapping[str, object]], times: ProgramTimeline) -> dict[tuple[OcmUse, ...], list[int]]:
    """Return the tiles of each different map, from the entries of a memory map's file."""
    tiles: dict[int, list[OcmUse]] = {}
    stages = times.stages
    for each in ranges:
        start, stop, first, last, tile = (
            int(str(each[key])) for key in ("start", "stop", "first_stage", "last_stage", "tile")
        )
        begin = stages[first].ready if first < len(stages) and not each["pinned"] else 0
        end = stages[last].end if last < len(stages) and not each["pinned"] else times.total
        use = OcmUse(start, stop, begin, max(end, begin), str(each["what"]), bool(each["pinned"]))
        tiles.setdefault(tile, []).append(use)
    groups: dict[tuple[OcmUse, ...], list[int]] = {}
    for tile in sorted(tiles):
        groups.setdefault(tuple(sorted(tiles[tile])), []).append(tile)
    return groups


def tile_memory_drawing(uses: Sequence[OcmUse], tiles: Sequence[int], times: ProgramTimeline) -> Drawing:
    """Draw addresses upwards and modelled cycles to the right."""
    top = max(use.stop for use in uses)
    across = Scale(0, max(times.total, 1), _LEFT, _RIGHT)
    up = Scale(0, (OCM_BYTES if top > OCM_BYTES / 2 else max(top * 1.05, 1)) / _KIB, _BOTTOM, _TOP)
    lane = lanes(dict.fromkeys(use.what for use in uses))
    parts = [
        _axes(across, up),
        *(_bar(use, lane[use.what], across, up) for use in uses),
        *_names(uses, across, up),
    ]
    return Drawing(_WIDTH, _HEIGHT, f"The memory of {tiles_word(tiles)} over time, modelled", "".join(parts))


def tiles_word(tiles: Sequence[int]) -> str:
    """Return ``tile 3``, or ``tiles 0, 1 and 2``."""
    if len(tiles) == 1:
        return f"tile {tiles[0]}"
    return f"tiles {', '.join(map(str, tiles[:-1]))} and {tiles[-1]}"


def _axes(across: Scale, up: Scale) -> str:
    parts = []
    for value in across.ticks(8):
        parts.append(label(across(value), _BOTTOM + 18, f"{value:,.0f}", "muted middle"))
        parts.append(element("line", class_="axis", x1=across(value), x2=across(value), y1=_BOTTOM, y2=_BOTTOM + 4))
    for value in up.ticks(4):
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=up(value), y2=up(value)))
        parts.append(label(_LEFT - 8, up(value) + 4, f"{value:g}", "muted end"))
    parts.append(element("line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM))
    parts.append(label((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "Cycles (modelled)", "middle"))
    parts.append(label(8, _TOP - 12, "Address (KiB)"))
    return "".join(parts)


def _bar(use: OcmUse, lane: str, across: Scale, up: Scale) -> str:
    left, right = across(use.begin), across(use.end)
    top, bottom = up(use.stop / _KIB), up(use.start / _KIB)
    path = f"M{rounded(left)} {rounded(top)}H{rounded(right)}V{rounded(bottom)}H{rounded(left)}z"
    kept = ", pinned" if use.pinned else ""
    told = f"{use.what}{kept}: {use.stop - use.start:,} bytes at {use.start:#x}, cycles {use.begin:,} to {use.end:,}"
    return element("g", title(told) + element("path", class_="buffer", d=path), class_=lane)


def _names(uses: Sequence[OcmUse], across: Scale, up: Scale) -> Iterator[str]:
    for use in uses:
        width, height = across(use.end) - across(use.begin), up(use.start / _KIB) - up(use.stop / _KIB)
        text = shortened(use.what, int(width / width_of("m")))
        if height > 14 and (text == use.what or len(text) >= _LEAST_NAME):
            middle = (across(use.begin) + across(use.end)) / 2
            yield label(middle, (up(use.start / _KIB) + up(use.stop / _KIB)) / 2 + 4, text, "middle over")
