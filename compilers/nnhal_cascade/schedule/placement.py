"""Addresses: where the tensors and buffers of a proposal lie in the working memory.

An output may lie over the dying inputs of its plan as far as the plan's profile allows. Forwards it can only reach into
them from below, and backwards only from above, so the direction of each plan is chosen with the addresses. Both are
found by a search from the first plan to the last that goes back if a plan cannot be placed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, TypeAlias

from nnhal_cascade.schedule.profile import PlanProfile

_STEPS = 200
"""How many placements of plans are tried, beside one for each plan, before the search gives up.

Networks with branches have been seen to take one or two for a plan.
"""

_FEW_STEPS = 200
"""The same for a search that only makes a placement better."""

_LATE = 6
"""For how many plans whose constants cannot be copied early another placement is tried."""

Addresses: TypeAlias = dict[int, int]
"""Tensors and their addresses."""

Pieces: TypeAlias = Sequence[tuple[int, int]]
"""Pieces of the memory: start and end."""

Placed: TypeAlias = tuple[tuple[int, int], ...]
"""Tensors and their addresses, in order."""


@dataclass(frozen=True, slots=True)
class PlanNeeds:
    """Buffers that one plan places."""

    arriving: tuple[int, ...]
    """Tensors that it writes and that are needed after it; before the first plan, the network's inputs."""
    dying: frozenset[int]
    """Tensors that it reads last."""
    scratch: tuple[tuple[int, ...], tuple[int, ...]]
    """The bytes of the buffers that it alone uses, forwards and backwards."""
    profiles: tuple[PlanProfile, PlanProfile]
    """Forwards and backwards."""
    constants: frozenset[int] = frozenset()
    """Which of the buffers hold constants: they are best where the plan before leaves the memory free."""

    @property
    def constants_bytes(self) -> int:
        """The bytes of the buffers that hold constants."""
        return sum(self.scratch[0][index] for index in self.constants)


class PlacedPlan(NamedTuple):
    backwards: bool
    arriving: Addresses
    scratch: tuple[int, ...]
    """The address of each buffer that it alone uses."""
    alive: Placed
    """Tensors that are alive after it, with their addresses."""
    occupied: tuple[tuple[int, int], ...]
    """What it uses of the memory: start and end of each piece."""
    early: bool
    """True if its constants can be copied while the plan before runs."""


class _Kept(NamedTuple):
    """Placements of a plan that were found, and the source of those that were not asked for yet."""

    source: Iterator[PlacedPlan]
    found: list[PlacedPlan]


class Placer:
    """Places the plans of a proposal one after the other."""

    def __init__(self, sizes: Sequence[int], needs: Sequence[PlanNeeds]) -> None:
        self._sizes, self._needs = sizes, needs
        self.deepest = 0
        """How many plans have been placed at most in the last search."""
        self._known: dict[tuple[int, Placed, Pieces | None], _Kept] = {}

    def least(self) -> int:
        """Return a lower bound: the bytes that some plan needs, wherever the tensors around it lie."""
        alive: set[int] = set()
        most = 0
        for needs in self._needs:
            present = alive.union(needs.arriving)
            whole = sum(self._sizes[tensor] for tensor in present)
            ways = zip(needs.scratch, needs.profiles, strict=True)
            most = max(most, whole + min(sum(scratch) - self._shared(alive, needs, found) for scratch, found in ways))
            alive = present - needs.dying
        return most

    def ample(self) -> int:
        """Return the bytes with which constants of each plan are likely to have room beside the plan before."""
        alive: set[int] = set()
        before = most = 0
        for needs in self._needs:
            present = alive.union(needs.arriving)
            shared = max(self._shared(alive, needs, found) for found in needs.profiles)
            most = max(most, before + needs.constants_bytes)
            before = sum(self._sizes[tensor] for tensor in present) + sum(needs.scratch[0]) - shared
            alive = present - needs.dying
        return max(most, self.least())

    def _floors(self) -> Iterator[int]:
        """Yield fewer bytes than each plan occupies, however its outputs lie over its dying inputs."""
        alive: set[int] = set()
        for needs in self._needs:
            after = alive.union(needs.arriving) - needs.dying.intersection(alive)
            tensors = max(sum(self._sizes[tensor] for tensor in some) for some in (alive, after))
            yield tensors + min(map(sum, needs.scratch))
            alive = after - needs.dying

    def _shared(self, alive: Collection[int], needs: PlanNeeds, found: PlanProfile) -> int:
        """The bytes that one dying input, if it is in this memory, at most shares with an output."""
        return max(
            (
                self._sizes[output]
                + self._sizes[dying]
                - min(
                    max(self._sizes[output], self._sizes[dying] + max(0, below)),
                    max(self._sizes[dying], self._sizes[output] + max(0, found.above[output, dying])),
                )
                for (output, dying), below in found.below.items()
                if dying in alive and dying in needs.dying and output in needs.arriving
            ),
            default=0,
        )

    def place(self, limit: int) -> list[PlacedPlan] | None:
        """Return a placement within ``limit`` bytes, or None if the search finds none.

        If constants cannot be copied early, other placements are tried in which they can.
        """
        self._known.clear()
        self.deepest = 0
        best = self._place(limit, frozenset(), _STEPS + len(self._needs))
        if best is None:
            return None
        floors = list(self._floors())
        wanted = {
            number
            for number, each in enumerate(self._needs)
            if number > 1 and each.constants and floors[number - 1] + each.constants_bytes <= limit
        }
        for number in sorted(wanted - _early(best), key=lambda each: -sum(self._needs[each].scratch[0]))[:_LATE]:
            other = self._place(limit, _early(best) | {number}, _FEW_STEPS + len(self._needs))
            best = other or best
        return best

    def _place(self, limit: int, early: frozenset[int], most: int) -> list[PlacedPlan] | None:
        """Search for a placement in which the constants of the plans in ``early`` can be copied early."""
        placed: list[PlacedPlan] = []
        failed: set[tuple[int, Placed]] = set()
        ways: list[Iterator[PlacedPlan]] = [self._ways(0, None, limit, False)]
        for _ in range(most):
            way = next(ways[-1], None)
            if way is None:
                ways.pop()
                if not ways:
                    return None
                dead = placed.pop()
                failed.add((len(placed) + 1, dead.alive))
                continue
            if (len(ways), way.alive) in failed:
                continue
            placed.append(way)
            self.deepest = max(self.deepest, len(placed))
            if len(placed) == len(self._needs):
                return placed
            ways.append(self._ways(len(placed), way, limit, len(placed) in early))
        return None

    def _ways(self, number: int, previous: PlacedPlan | None, limit: int, early: bool) -> Iterator[PlacedPlan]:
        """The placements of a plan after the one before: first those whose constants can be copied during that one.

        With ``early`` there are no others.
        """
        if previous is not None and self._is_left(self._needs[number], previous.occupied, limit):
            yield from self._kept(number, previous.alive, limit, previous.occupied)
        if not early:
            yield from self._kept(number, previous.alive if previous else (), limit, None)

    def _is_left(self, needs: PlanNeeds, taken: Pieces, limit: int) -> bool:
        """Return whether there are constants that may fit beside what is taken."""
        if not needs.constants:
            return False
        gaps = [stop - start for start, stop in _gaps(taken, limit)]
        largest = max(needs.scratch[0][index] for index in needs.constants)
        return max(gaps, default=0) >= largest and sum(gaps) >= needs.constants_bytes

    def _kept(self, number: int, alive: Placed, limit: int, taken: Pieces | None) -> Iterator[PlacedPlan]:
        """The placements of a plan. The searches within one limit have most of them in common."""
        key = number, alive, taken
        kept = self._known.get(key)
        if kept is None:
            kept = self._known[key] = _Kept(self._fitting(self._needs[number], dict(alive), limit, taken), [])
        found = kept.found
        for index in count():
            if index == len(found):
                following = next(kept.source, None)
                if following is None:
                    return
                found.append(following)
            yield found[index]

    def _fitting(self, needs: PlanNeeds, before: Addresses, limit: int, taken: Pieces | None) -> Iterator[PlacedPlan]:
        """The placements of a plan; its constants lie outside of what is ``taken``, if that is given."""
        first, second = needs.profiles
        early = frozenset[int]() if taken is None else needs.constants
        there = [(base, base + self._sizes[tensor]) for tensor, base in before.items()]
        staying = [each for each in before.items() if each[0] not in needs.dying]
        for backwards in (False, True) if first is not second else (False,):
            scratch = needs.scratch[backwards]
            for arriving in self._arrivals({}, before, needs, sum(scratch), backwards, limit):
                tensors = [*there, *((base, base + self._sizes[tensor]) for tensor, base in arriving.items())]
                holes = _fitted(scratch, tensors, limit, early, taken or ())
                if holes is not None:
                    come = [each for each in arriving.items() if each[0] not in needs.dying]
                    alive = sorted([*staying, *come])
                    buffers = [(base, base + size) for base, size in zip(holes, scratch, strict=True)]
                    occupied = *tensors, *buffers
                    yield PlacedPlan(backwards, arriving, holes, tuple(alive), occupied, taken is not None)

    def _arrivals(
        self, placed: Addresses, before: Addresses, needs: PlanNeeds, scratch: int, backwards: bool, limit: int
    ) -> Iterator[Addresses]:
        """The addresses of all tensors that arrive, each beside those that are ``placed`` already."""
        if len(placed) == len(needs.arriving):
            yield placed
            return
        tensor = needs.arriving[len(placed)]
        for base in self._choices(tensor, placed, before, needs, scratch, backwards, limit):
            yield from self._arrivals({**placed, tensor: base}, before, needs, scratch, backwards, limit)

    def _choices(
        self,
        tensor: int,
        placed: Addresses,
        before: Addresses,
        needs: PlanNeeds,
        scratch: int,
        backwards: bool,
        limit: int,
    ) -> list[int]:
        """The addresses worth trying for a tensor: at the borders of the memory, of its neighbours, and of the scratch.

        Those that share most with dying inputs come first, since they leave most of the memory free.
        """
        size, profile = self._sizes[tensor], needs.profiles[backwards]
        tried = [limit - size, 0, scratch, limit - size - scratch]
        apart: list[tuple[int, int]] = []
        for other, base in placed.items():
            end = base + self._sizes[other]
            apart.append((base, end))
            tried += (end, base - size)
        shared: Addresses = {}
        for other, base in before.items():
            end = base + self._sizes[other]
            tried += (end, base - size)
            if other in needs.dying and (below := profile.below.get((tensor, other))) is not None:
                shared[other] = base
                tried += (base - below, base + profile.above[tensor, other])
            else:
                apart.append((base, end))
        gaps = _gaps(apart, limit)
        starts = [start for start, _ in gaps]
        clear = [
            base
            for base in dict.fromkeys(tried)
            if (index := bisect_right(starts, base)) and base + size <= gaps[index - 1][1]
        ]
        if not shared:
            return clear
        pieces = [(there, there + self._sizes[other]) for other, there in shared.items()]
        free = (
            base
            for base in clear
            if all(self._clear(tensor, base, other, there, profile) for other, there in shared.items())
        )
        return sorted(free, key=lambda base: -_common((base, base + size), pieces))

    def _clear(self, tensor: int, base: int, other: int, there: int, profile: PlanProfile) -> bool:
        """Return whether a tensor may lie at ``base`` if a dying one lies ``there``."""
        if base >= there + self._sizes[other] or there >= base + self._sizes[tensor]:
            return True
        return there >= base + profile.below[tensor, other] or base >= there + profile.above[tensor, other]


def _early(placed: Sequence[PlacedPlan]) -> frozenset[int]:
    return frozenset(number for number, each in enumerate(placed) if each.early)


def _fitted(
    sizes: Sequence[int], tensors: Pieces, limit: int, early: frozenset[int] = frozenset(), taken: Pieces = ()
) -> tuple[int, ...] | None:
    """Addresses for buffers between tensors: each in the smallest gap that it fits, the largest first.

    The buffers in ``early`` come before the others and lie outside of what is ``taken``, too.
    """
    if not sizes:
        return ()
    found = [0] * len(sizes)
    used = list(tensors)
    for some, around in ((early, taken), (frozenset(range(len(sizes))) - early, ())):
        if not some:
            continue
        gaps = _gaps([*used, *around], limit)
        for index in sorted(some, key=lambda each: -sizes[each]):
            gap = min(
                (gap for gap in gaps if gap[1] - gap[0] >= sizes[index]), key=lambda gap: gap[1] - gap[0], default=None
            )
            if gap is None:
                return None
            found[index] = gap[0]
            used.append((gap[0], gap[0] + sizes[index]))
            gap[0] += sizes[index]
    return tuple(found)


def _gaps(pieces: Pieces, limit: int) -> list[list[int]]:
    """Return what pieces leave free of the memory."""
    gaps, end = [], 0
    for start, stop in sorted(pieces):
        if start > end:
            gaps.append([end, start])
        end = max(end, stop)
    return [*gaps, [end, limit]] if limit > end else gaps


def _common(piece: tuple[int, int], others: Pieces) -> int:
    """The bytes that a piece has in common with others, which are apart or lie over one another."""
    first, end = piece
    return sum(
        (end if end < stop else stop) - (first if first > start else start)
        for start, stop in others
        if first < stop and start < end
    )
