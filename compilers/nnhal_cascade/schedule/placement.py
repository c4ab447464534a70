"""Addresses: where the tensors and buffers of a proposal lie in the working memory.

An output may lie over the dying inputs of its plan as far as the plan's profile allows. Forwards it can only reach into
them from below, and backwards only from above, so the direction of each plan is chosen with the addresses. Both are
found by a search from the first plan to the last that goes back if a plan cannot be placed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True)
class PlanNeeds:
    """What one plan places."""

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


@dataclass(frozen=True, slots=True)
class PlacedPlan:
    """One plan in its place."""

    backwards: bool
    arriving: Addresses
    scratch: tuple[int, ...]
    """The address of each buffer that it alone uses."""
    alive: tuple[tuple[int, int], ...]
    """Tensors that are alive after it, with their addresses."""
    occupied: tuple[tuple[int, int], ...]
    """What it uses of the memory: start and end of each piece."""
    early: bool
    """Whether its constants can be copied while the plan before runs."""


class Placer:
    """Places the plans of a proposal one after the other."""

    def __init__(self, sizes: Sequence[int], needs: Sequence[PlanNeeds]) -> None:
        self._sizes, self._needs = sizes, needs
        self.deepest = 0
        """The furthest plan that a search that failed did not get past."""

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
            constants = sum(needs.scratch[0][index] for index in needs.constants)
            most = max(most, before + constants)
            before = sum(self._sizes[tensor] for tensor in present) + sum(needs.scratch[0]) - shared
            alive = present - needs.dying
        return max(most, self.least())

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
        best = self._place(limit, frozenset(), _STEPS + len(self._needs))
        if best is None:
            return None
        wanted = {number for number, each in enumerate(self._needs) if number > 1 and each.constants}
        for number in sorted(wanted - _early(best), key=lambda each: -sum(self._needs[each].scratch[0]))[:_LATE]:
            other = self._place(limit, _early(best) | {number}, _FEW_STEPS + len(self._needs))
            best = other or best
        return best

    def _place(self, limit: int, early: frozenset[int], most: int) -> list[PlacedPlan] | None:
        """Search for a placement in which the constants of the plans in ``early`` can be copied early."""
        placed: list[PlacedPlan] = []
        failed: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
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
        needs = self._needs[number]
        before = dict(previous.alive) if previous else {}
        if previous is not None and needs.constants:
            yield from self._fitting(needs, before, limit, previous.occupied)
        if not early:
            yield from self._fitting(needs, before, limit, None)

    def _fitting(self, needs: PlanNeeds, before: Addresses, limit: int, taken: Pieces | None) -> Iterator[PlacedPlan]:
        """The placements of a plan; its constants lie outside of what is ``taken``, if that is given."""
        first, second = needs.profiles
        early = frozenset[int]() if taken is None else needs.constants
        for backwards in (False, True) if first is not second else (False,):
            scratch = needs.scratch[backwards]
            for arriving in self._arrivals({}, before, needs, sum(scratch), backwards, limit):
                present = {**before, **arriving}
                tensors = [(base, base + self._sizes[tensor]) for tensor, base in present.items()]
                holes = _fitted(scratch, tensors, limit, early, taken or ())
                if holes is not None:
                    alive = sorted(each for each in present.items() if each[0] not in needs.dying)
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
        shared = {other: there for other, there in before.items() if (tensor, other) in profile.below}
        shared = {other: there for other, there in shared.items() if other in needs.dying}
        apart = [(there, there + self._sizes[other]) for other, there in before.items() if other not in shared]
        apart += [(there, there + self._sizes[other]) for other, there in placed.items()]
        gaps = _gaps(apart, limit)
        tried = [limit - size, 0, scratch, limit - size - scratch]
        for other, base in placed.items():
            tried += [base + self._sizes[other], base - size]
        for other, base in before.items():
            tried += [base + self._sizes[other], base - size]
            if other in shared:
                tried += [base - profile.below[tensor, other], base + profile.above[tensor, other]]
        clear = [
            base
            for base in dict.fromkeys(tried)
            if _inside(gaps, base, base + size)
            and all(self._clear(tensor, base, other, there, profile) for other, there in shared.items())
        ]
        pieces = [(there, there + self._sizes[other]) for other, there in shared.items()]
        return sorted(clear, key=lambda base: -_common((base, base + size), pieces))

    def _clear(self, tensor: int, base: int, other: int, there: int, profile: PlanProfile) -> bool:
        """Whether a tensor may lie at ``base`` if a dying one lies ``there``."""
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
    found = [0] * len(sizes)
    used = list(tensors)
    for some, around in ((early, taken), (frozenset(range(len(sizes))) - early, ())):
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
    """What pieces leave free of the memory."""
    gaps, end = [], 0
    for start, stop in sorted(pieces):
        if start > end:
            gaps.append([end, start])
        end = max(end, stop)
    return [*gaps, [end, limit]] if limit > end else gaps


def _inside(gaps: Sequence[Sequence[int]], start: int, stop: int) -> bool:
    """Return whether a piece lies in one of the gaps, which are in order."""
    index = bisect_right(gaps, start, key=_start) - 1
    return index >= 0 and stop <= gaps[index][1]


def _start(gap: Sequence[int]) -> int:
    return gap[0]


def _common(piece: tuple[int, int], others: Pieces) -> int:
    """The bytes that a piece has in common with others, which are apart or lie over one another."""
    return sum(max(0, min(piece[1], stop) - max(piece[0], start)) for start, stop in others)
