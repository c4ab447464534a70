"""The compiler: from a graph and a budget to a schedule that fits, or to the least that would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from nnhal_cascade.graph.bounds import memory_bound
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.orders import orders
from nnhal_cascade.hardware.memory import MemoryRegion, System
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.candidates import PlanCandidate, PlanSpace, Tried
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.part_costs import PartCosts
from nnhal_cascade.plans.proposals import ProposalSearch, Selection
from nnhal_cascade.plans.staging import Reading, staged, staged_readings
from nnhal_cascade.schedule.lowering import Lowering
from nnhal_cascade.schedule.schedule import Schedule

_ALTERNATIVES = 2_000
"""How many further proposals are looked at, times the number of parts: planning takes a time that is linear in it."""

_TRIALS = 1200
"""How many plans are replaced at most to find addresses, times the number of parts; see ``_LEAST_TRIALS``, too."""

_LEAST_TRIALS, _MOST_TRIALS = 4, 24
"""How many they are at least and at most."""

_ROOM = (1, 1.002, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2)
"""How much memory is tried for the smallest schedule, as multiples of the smallest proposal's."""

_PLAN_PARTS = 10
"""The most parts of one cascade, unless the least memory is searched for."""

_SPILL_CHOICES = 8
"""How many sizes from which on tensors are spilled are tried at most."""

_FIRST_STRIDE = 1 / 256
"""The share of memory by which the next proposal takes less if no addresses are found for the fastest one: it doubles
each time. So a space in which nothing fits takes little time, if others spill more.
"""

_MOST_VAIN, _VAIN_PARTS = 2, 100
"""After how many of them in a row that make nothing faster the others are left out: so many at most, and for more
parts ``_VAIN_PARTS`` divided by their number, but one at least."""


class DoesNotFitError(ValueError):
    """No plan fits the budget."""

    def __init__(self, budget: int, smallest: Schedule, parts: int, recompute: bool) -> None:
        """``parts`` is the most that a plan had in the search for the smallest schedule."""
        self.budget, self.least, self.smallest, self.parts = budget, smallest.peak, smallest, parts
        known = smallest.system.spill is None
        bound = f"; bound {memory_bound(smallest.graph, recompute).bytes:,} bytes" if known else ""
        self.found = f"the least found is {self.least:,} bytes, with plans of up to {parts} parts{bound}"
        """The extent of the search, in words."""
        super().__init__(f"the network does not fit into {budget:,} bytes of working memory: {self.found}")


class ConstantsDoNotFitError(ValueError):
    """The region in which constants lie at rest is too small for those of a network."""

    def __init__(self, needed: int, region: MemoryRegion) -> None:
        super().__init__(f"the constants take {needed:,} bytes, {region.name} has {region.size:,}")


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """Options of the compiler."""

    budget: int | None = None
    """Bytes of the working memory that a schedule may take; None for the size of the region."""
    max_plan_parts: int | None = None
    """The most parts of one cascade; 1 for no cascades. None for ten, and for more as long as less memory is found."""
    recompute: bool = False
    """True if values may be computed twice to save memory."""
    stripe_factors: int | None = None
    """How many extents of stripes are tried along an axis: all, a half and so on, and one last; None for all halves."""
    always_copy_size: int = 0
    """Constants of a part of at most so many bytes are copied to the working memory whatever that saves."""
    max_proposals: int | None = None
    """How many proposals are looked at; None for a number that falls as the parts grow in number."""


class Frontier(NamedTuple):
    """The best compromises between memory and cycles."""

    points: tuple[Schedule, ...]
    """From the fastest to the smallest."""
    parts: int
    """The most parts that a plan had in the search for the smallest."""


def compile_graph(graph: CascaderGraph, system: System, options: CompilerOptions | None = None) -> Schedule:
    """Return the fastest schedule within the budget.

    Raises:
        DoesNotFitError: there is none.
        ConstantsDoNotFitError: the region of constants at rest is too small.
    """
    options = options or CompilerOptions()
    budget = _limit(system, options)
    best: Schedule | None = None
    patience = min(max(_VAIN_PARTS // max(1, len(graph.parts)), 1), _MOST_VAIN)
    for homes in _homes(graph, system, options):
        vain = 0
        for spaces in homes:
            found = best
            for space in spaces:
                found = space.fastest(budget, found)
                if found is None:
                    break  # copies of what is spilled take more memory
            if found is not None and (best is None or found.cycles < best.cycles):
                best, vain = found, 0
            elif best is not None:
                # Each space spills more than the one before. Beyond what the budget asks for, that costs cycles.
                vain += 1
                if vain == patience:
                    break
    if best is not None:
        return best
    smallest, parts = _smallest(graph, system, options)
    if smallest.peak > budget:
        raise DoesNotFitError(budget, smallest, parts, options.recompute)
    return smallest


def frontier(graph: CascaderGraph, system: System, options: CompilerOptions | None = None) -> Frontier:
    """Return the Pareto efficient schedules, the fastest first: each takes less memory and more cycles than the last.

    The budget is an upper limit. With ``recompute`` the schedules are those without it as well: it makes none worse.

    Raises ConstantsDoNotFitError if the region of constants at rest is too small.
    """
    options = options or CompilerOptions()
    limit = _limit(system, options)
    allowed = (options, replace(options, recompute=False)) if options.recompute else (options,)
    every = [
        each
        for some in allowed
        for homes in _homes(graph, system, some)
        for spaces in homes
        for space in spaces
        for each in space.all(limit)
    ]
    parts = options.max_plan_parts or _PLAN_PARTS
    if system.spill is None:
        smallest = [_smallest(graph, system, some) for some in allowed]
        every += [least for least, _ in smallest if least.peak <= limit]
        parts = max(most for _, most in smallest)
    found: list[Schedule] = []
    for each in sorted(every, key=lambda each: (each.cycles, each.peak)):
        if not found or each.peak < found[-1].peak:
            found.append(each)
    return Frontier(tuple(found), parts)


def least_memory(graph: CascaderGraph, system: System, options: CompilerOptions | None = None) -> int:
    """Return the bytes of the smallest schedule that is found.

    Raises ConstantsDoNotFitError if the region of constants at rest is too small.
    """
    return _smallest(graph, system, options or CompilerOptions())[0].peak


def _smallest(graph: CascaderGraph, system: System, options: CompilerOptions) -> tuple[Schedule, int]:
    """The schedule of least memory, and the most parts that a cascade had in the search: there is one without spilling.

    If neither the options nor a spill region limit them, a cascade's parts are doubled as long as that finds less.
    """
    best: Schedule | None = None
    parts = options.max_plan_parts or _PLAN_PARTS
    bound = memory_bound(graph, options.recompute).bytes
    is_limited = options.max_plan_parts is not None or system.spill is not None
    while True:
        before = best
        for homes in _homes(graph, system, replace(options, max_plan_parts=parts)):
            for space in chain.from_iterable(homes):
                best = space.least(best)
        assert best is not None, "a graph has an order"
        parts = min(parts, len(graph.parts))
        is_last = is_limited or parts == len(graph.parts) or best.peak <= bound
        if is_last or (before is not None and best.peak == before.peak):
            return best, parts
        parts *= 2


def _limit(system: System, options: CompilerOptions) -> int:
    """The bytes of the working memory that a schedule may take."""
    return system.working.size if options.budget is None else min(options.budget, system.working.size)


def planned_graphs(graph: CascaderGraph, system: System) -> Iterator[CascaderGraph]:
    """Yield the graphs that schedules of a graph may have: in each order, as it is and with copies of spilled tensors.

    Raises ConstantsDoNotFitError if the region of constants at rest is too small.
    """
    yield from orders(graph)
    for homes in _homes(graph, system, CompilerOptions()):
        for spaces in homes:
            yield from (space.graph for space in spaces[1:])


def _homes(graph: CascaderGraph, system: System, options: CompilerOptions) -> Iterator[Iterator[tuple[_Space, ...]]]:
    """For each order of the parts, the homes that tensors may have. Raises ConstantsDoNotFitError."""
    constants = sum(graph.constants_bytes)
    if constants > system.constants.size:
        raise ConstantsDoNotFitError(constants, system.constants)
    costs = PartCosts(Homes(graph, system), StripePricer(graph, system))
    for order in orders(graph):
        homes = Homes(order, system)
        yield _spaces(homes, costs.of(homes), options)


def _spaces(homes: Homes, costs: PartCosts, options: CompilerOptions) -> Iterator[tuple[_Space, ...]]:
    """The homes that tensors may have: all in the working memory, or those from some size on in the spill region.

    First those that spill nothing, then those that spill the largest, and so on; each as it is and, if that is faster
    for some part, with copies of what is spilled.
    """
    graph, system = homes.graph, homes.system
    yield (_Space(homes, costs, options),)
    if system.spill is None:
        return
    sizes = sorted({tensor.bytes for tensor in graph.tensors}, reverse=True)
    step = -(-len(sizes) // _SPILL_CHOICES)
    for size in sizes[::step]:
        spilled = frozenset(each.index for each in graph.tensors if each.bytes >= size)
        homes = Homes(graph, system, spilled)
        plain, readings = _Space(homes, costs, options), staged_readings(homes, costs.pricer)
        yield (plain, _staged_space(homes, costs, readings, options)) if readings else (plain,)


def _staged_space(homes: Homes, costs: PartCosts, readings: frozenset[Reading], options: CompilerOptions) -> _Space:
    """A space with copies of what some parts read."""
    homes = Homes(staged(homes.graph, readings), homes.system, homes.spilled)
    return _Space(homes, costs.of(homes), options)


class _Space:
    """The schedules of a graph with the homes of its tensors given."""

    def __init__(self, homes: Homes, costs: PartCosts, options: CompilerOptions) -> None:
        self.graph, self._homes, self._costs, self._options = homes.graph, homes, costs, options
        self._parts = options.max_plan_parts or _PLAN_PARTS
        self._lowering = Lowering(homes, costs.pricer)
        self._most = homes.system.working.size
        parts = max(1, len(homes.graph.parts))
        self._alternatives = options.max_proposals or _ALTERNATIVES // parts
        self._trials = min(max(_TRIALS // parts, _LEAST_TRIALS), _MOST_TRIALS)

    def fastest(self, limit: int, known: Schedule | None = None) -> Schedule | None:
        """Return the fastest schedule within a limit: ``known``, if no proposal within it is faster and has addresses.

        ``known`` is one of another space. Of equally fast ones it is taken.
        """
        return self._best(self._searches(self._most, known), limit, known, is_hasty=bool(self._homes.spilled))

    def _searches(self, limit: int | None, known: Schedule | None = None) -> list[ProposalSearch]:
        """The proposals of plans that take at most ``limit`` bytes, and that may be faster than ``known``.

        Plans that compute nothing twice, and those of one part, are searched for themselves as well: what an estimate
        prefers to them may turn out to be slower.
        """
        options, graph = self._options, self._homes.graph
        rival = None if known is None else known.cycles
        tried = Tried(self._parts, options.recompute, options.stripe_factors, options.always_copy_size)
        space = PlanSpace(self._homes, self._costs, tried, limit, rival)
        if space.slack <= 0:
            return []
        found = space.all()
        kinds = [found]
        if options.recompute:
            kinds.append([[each for each in ending if not each.recomputes] for ending in found])
        if self._parts > 1:
            kinds.append([[each for each in ending if each.stop == each.first + 1] for ending in found])
        return [ProposalSearch(graph, kind, self._homes.spilled) for kind in kinds]

    def _best(
        self,
        searches: Sequence[ProposalSearch],
        limit: int,
        known: Schedule | None = None,
        is_hasty: bool = False,
    ) -> Schedule | None:
        """The fastest schedule, ``known`` among them. As long as there is none, it strides if ``is_hasty``.

        A proposal can be slower than estimated, since addresses decide how long it waits for its constants. So slower
        ones are looked at as long as they could be faster. They are the same ones for each limit, but for those that
        take more than it: what a budget finds, a larger one finds as well.
        """
        best, left = known, self._alternatives
        for search in searches:
            room, stride = limit, _FIRST_STRIDE
            for selection in search.within(self._most):
                estimate, memory = selection.cycles, selection.memory
                if memory > room:
                    continue
                if best is not None and (estimate >= best.cycles or left <= 0):
                    break
                left -= 1
                found = self._lowering.schedule(selection.proposal, limit)
                wide = found if isinstance(found, Schedule) else None
                tight = None
                if wide is None or (wide.peak > memory and wide.cycles > estimate):
                    tight = self._placed(search, selection, memory)
                if is_hasty and wide is tight is best is None:
                    room, stride = int(memory * (1 - stride)), 2 * stride
                best = min(filter(None, (best, wide, tight)), key=lambda each: (each.cycles, each.peak), default=None)
        return best

    def all(self, limit: int) -> Iterator[Schedule]:
        """Yield schedules within a limit, from the fastest proposal to the smallest."""
        searches = self._searches(limit)
        yield from self._efficient(searches, limit)
        searches = [each for each in searches if each.fastest(limit) is not None]
        least = self._smallest(searches) if searches else None
        if least is not None and least.peak <= limit:
            yield least

    def _efficient(self, searches: Sequence[ProposalSearch], limit: int | None) -> Iterator[Schedule]:
        """Each efficient proposal in its own memory, and in more if it waits for its constants there."""
        for search in searches:
            for selection in search.within(self._most):
                if limit is not None and selection.memory > limit:
                    continue
                found = self._placed(search, selection, selection.memory)
                if found is not None:
                    yield found
                if limit is not None and (found is None or found.cycles > selection.cycles):
                    wider = self._placed(search, selection, limit)
                    if wider is not None:
                        yield wider

    def least(self, known: Schedule | None = None) -> Schedule | None:
        """Return the smallest schedule: ``known``, if none is smaller; None if what it spills does not fit."""
        most = None if known is None else known.peak - 1
        searches = [each for each in self._searches(most) if most is None or each.fastest(most) is not None]
        return (self._smallest(searches, most) if searches else None) or known

    def _smallest(self, searches: Sequence[ProposalSearch], most: int | None = None) -> Schedule | None:
        """The smallest schedule of at most ``most`` bytes. Each search has a proposal of so many."""
        least = min(search.least() for search in searches)
        found = None
        for room in _ROOM:
            limit = int(least * room) if most is None else min(int(least * room), most)
            found = self._best(searches, limit)
            if found is not None:
                break
        if found is None:
            # What the smallest proposals spill may be more than the spill region holds.
            found = min(self._efficient(searches, most), key=lambda each: each.peak, default=None)
        if found is None:
            return None
        while (smaller := self._best(searches, found.peak - 1)) is not None:
            found = smaller
        return found

    def _placed(self, search: ProposalSearch, selection: Selection, limit: int) -> Schedule | None:
        """Find addresses for a proposal. If there are none, plans that are in the way are replaced by others."""
        banned: set[PlanCandidate] = set()
        trial: Selection | None = selection
        for _ in range(self._trials):
            if trial is None:
                return None
            found = self._lowering.schedule(trial.proposal, limit)
            if isinstance(found, Schedule):
                return found
            near = trial.candidates[max(0, found.plan - 1) : found.plan + 1]
            banned.add(max(near, key=lambda each: each.memory))
            trial = search.fastest(limit, banned, trial)
        return None
