"""Addresses: where the tensors and buffers of a proposal lie in the working memory.

An output may lie over the dying inputs of its plan as far as the plan's profile allows. Forwards it can only reach into
them from below, and backwards only from above, so the direction of each plan is chosen with the addresses. Both are found
by a search from the first plan to the last that goes back if a plan cannot be placed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from nnhal_devices.ethos_u.cascader.schedule.profile import PlanProfile

_STEPS = 20_000
"""Placements of a plan that are tried before the search gives up."""

Addresses = dict[int, int]
"""Tensors and their addresses."""


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


@dataclass(frozen=True, slots=True)
class PlacedPlan:
    """One plan in its place."""

    backwards: bool
    arriving: Addresses
    scratch: tuple[int, ...]
    """The address of each buffer that it alone uses."""
    alive: tuple[tuple[int, int], ...]
    """Tensors that are alive after it, with their addresses."""


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
            most = max(most, whole + min(sum(scratch) - self._shared(needs, found) for scratch, found in ways))
            alive = present - needs.dying
        return most

    def _shared(self, needs: PlanNeeds, found: PlanProfile) -> int:
        """The bytes that one dying input at most shares with an output."""
        return max(
            (
                self._sizes[output]
                + self._sizes[dying]
                - min(
                    max(self._sizes[output], self._sizes[dying] + max(0, below)),
                    max(self._sizes[dying], self._sizes[output] + max(0, found.above[output, dying])),
                )
                for (output, dying), below in found.below.items()
                if dying in needs.dying and output in needs.arriving
            ),
            default=0,
        )

    def place(self, limit: int) -> list[PlacedPlan] | None:
        """Return a placement within ``limit`` bytes, or None if the search finds none."""
        placed: list[PlacedPlan] = []
        failed: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
        ways: list[Iterator[PlacedPlan]] = [self._ways(0, (), limit)]
        for _ in range(_STEPS + len(self._needs)):
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
            ways.append(self._ways(len(placed), way.alive, limit))
        return None

    def _ways(self, number: int, alive: tuple[tuple[int, int], ...], limit: int) -> Iterator[PlacedPlan]:
        """The placements of a plan, given the tensors that are alive before it."""
        needs = self._needs[number]
        before = dict(alive)
        first, second = needs.profiles
        for backwards in (False, True) if first is not second else (False,):
            scratch = needs.scratch[backwards]
            choices = [self._choices(tensor, before, needs, sum(scratch), backwards, limit) for tensor in needs.arriving]
            for bases in product(*choices):
                arriving = dict(zip(needs.arriving, bases, strict=True))
                if not self._apart(arriving):
                    continue
                holes = self._fitted(scratch, {**before, **arriving}, limit)
                if holes is not None:
                    after = {**before, **arriving}
                    alive_after = sorted(each for each in after.items() if each[0] not in needs.dying)
                    yield PlacedPlan(backwards, arriving, holes, tuple(alive_after))

    def _choices(
        self, tensor: int, before: Addresses, needs: PlanNeeds, scratch: int, backwards: bool, limit: int
    ) -> list[int]:
        """The addresses worth trying for a tensor: at the borders of the memory, of its neighbours, and of the scratch."""
        size, profile = self._sizes[tensor], needs.profiles[backwards]
        tried = [limit - size, 0, scratch, limit - size - scratch]
        for other, base in before.items():
            key = tensor, other
            tried += [base + self._sizes[other], base - size]
            if other in needs.dying and key in profile.below:
                tried += [base - profile.below[key], base + profile.above[key]]
        return [
            base
            for base in dict.fromkeys(tried)
            if 0 <= base <= limit - size
            and all(self._clear(tensor, base, other, there, needs, profile) for other, there in before.items())
        ]

    def _clear(
        self, tensor: int, base: int, other: int, there: int, needs: PlanNeeds, profile: PlanProfile
    ) -> bool:
        if base >= there + self._sizes[other] or there >= base + self._sizes[tensor]:
            return True
        key = tensor, other
        if other not in needs.dying or key not in profile.below:
            return False
        return there >= base + profile.below[key] or base >= there + profile.above[key]

    def _apart(self, bases: Addresses) -> bool:
        placed = sorted((base, self._sizes[tensor]) for tensor, base in bases.items())
        return all(one + size <= other for (one, size), (other, _) in zip(placed, placed[1:], strict=False))

    def _fitted(self, scratch: Sequence[int], alive: Mapping[int, int], limit: int) -> tuple[int, ...] | None:
        """Addresses for buffers between the tensors, the largest first into the smallest gap that it fits."""
        if not scratch:
            return ()
        gaps, end = [], 0
        for base, size in sorted((base, self._sizes[tensor]) for tensor, base in alive.items()):
            if base > end:
                gaps.append([end, base])
            end = max(end, base + size)
        if limit > end:
            gaps.append([end, limit])
        found = [0] * len(scratch)
        for index in sorted(range(len(scratch)), key=lambda each: -scratch[each]):
            fitting = [gap for gap in gaps if gap[1] - gap[0] >= scratch[index]]
            if not fitting:
                return None
            gap = min(fitting, key=lambda each: each[1] - each[0])
            found[index] = gap[0]
            gap[0] += scratch[index]
        return tuple(found)
