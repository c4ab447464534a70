"""The ways of long links: bends in the ranks between, which links from one value, or to one node, share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from nnhal_pages.layout.shapes import LayoutLink

_BENDS_EACH, _BENDS_LEAST = 6, 2000
"""How many bends there may be for each node, and in any graph."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a way between two ranks. Both ends are nodes or bends, whose numbers follow those of the nodes."""

    upper: int
    lower: int
    upper_x: float
    """From the middle of the upper end."""
    lower_x: float
    links: int = 1
    """How many links share it."""


@dataclass(frozen=True, slots=True)
class Trunk:
    """The shared way of some links."""

    links: tuple[int, ...]
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways of all links."""

    ranks: tuple[int, ...]
    """The ranks of all nodes, then of all bends."""
    trunks: tuple[Trunk, ...]
    cut: tuple[int, ...]
    """The links without a way."""


def ways_of(ranks: Sequence[int], links: Sequence[tuple[int, LayoutLink]]) -> Ways:
    """Return ways for links, each with its number, that go from a rank to a higher one."""
    groups = _together(ranks, links)
    most = _BENDS_EACH * len(ranks) + _BENDS_LEAST
    all_ranks, trunks, cut = list(ranks), [], []
    for down, members in sorted(groups, key=lambda group: (_length(ranks, group[1]), group[1][0][0])):
        if len(all_ranks) - len(ranks) + _length(ranks, members) - 1 > most:
            cut += [number for number, _ in members]
        else:
            trunks.append(_trunk(all_ranks, members, down))
    trunks.sort(key=lambda trunk: trunk.links[0])
    return Ways(tuple(all_ranks), tuple(trunks), tuple(sorted(cut)))


_Group = list[tuple[int, LayoutLink]]


def _length(ranks: Sequence[int], members: _Group) -> int:
    return max(ranks[link.target] for _, link in members) - min(ranks[link.source] for _, link in members)


def _together(ranks: Sequence[int], links: Sequence[tuple[int, LayoutLink]]) -> list[tuple[bool, _Group]]:
    """Group links that share a way, with whether it is from their source on. A long link joins the larger group."""
    long = [ranks[link.target] - ranks[link.source] > 1 for _, link in links]
    out: defaultdict[Hashable, int] = defaultdict(int)
    into: defaultdict[Hashable, int] = defaultdict(int)
    for (_, link), far in zip(links, long, strict=True):
        if far:
            out[_from(link)] += 1
            into[_to(link)] += 1
    groups: defaultdict[Hashable, _Group] = defaultdict(list)
    for (number, link), far in zip(links, long, strict=True):
        down = out[_from(link)] >= into[_to(link)]
        groups[(True, number) if not far else (down, _from(link) if down else _to(link))].append((number, link))
    return [(bool(key[0]), members) for key, members in groups.items() if isinstance(key, tuple)]


def _from(link: LayoutLink) -> Hashable:
    return link.source, link.source_x, link.value, link.kind


def _to(link: LayoutLink) -> Hashable:
    return link.target, link.target_x, link.kind


def _trunk(ranks: list[int], members: _Group, down: bool) -> Trunk:
    """Make a way, and add the ranks of its bends."""
    first = min(ranks[link.source] for _, link in members) + 1
    last = max(ranks[link.target] for _, link in members) - 1
    bends = {rank: len(ranks) + rank - first for rank in range(first, last + 1)}
    ranks += bends
    stretches = [Stretch(bends[rank], bends[rank + 1], 0, 0) for rank in range(first, last)]
    if not bends:
        stretches += [Stretch(link.source, link.target, link.source_x, link.target_x) for _, link in members]
    elif down:
        start = members[0][1]
        stretches.insert(0, Stretch(start.source, bends[first], start.source_x, 0, len(members)))
        stretches += [Stretch(bends[ranks[link.target] - 1], link.target, 0, link.target_x) for _, link in members]
    else:
        end = members[0][1]
        stretches += [Stretch(link.source, bends[ranks[link.source] + 1], link.source_x, 0) for _, link in members]
        stretches.append(Stretch(bends[last], end.target, 0, end.target_x, len(members)))
    return Trunk(tuple(number for number, _ in members), tuple(stretches))
