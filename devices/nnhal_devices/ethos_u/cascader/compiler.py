"""The compiler: from a graph and a budget to a schedule that fits, or to the least that would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.hardware.memory import MemoryRegion, System
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import StripePricer
from nnhal_devices.ethos_u.cascader.plans.candidates import PlanCandidate, PlanSpace
from nnhal_devices.ethos_u.cascader.plans.part_costs import Homes, PartCosts
from nnhal_devices.ethos_u.cascader.plans.proposals import ProposalSearch, Selection
from nnhal_devices.ethos_u.cascader.schedule.lowering import Lowering
from nnhal_devices.ethos_u.cascader.schedule.schedule import Schedule

_PATIENCE = 1.05
"""How much slower an estimate may be than the best schedule to be looked at."""

_ALTERNATIVES = 250
"""How many further proposals are looked at, times the number of parts: planning takes a time that is linear in it."""

_TRIALS = 24
"""How many plans are replaced at most to find addresses."""

_ROOM = (1, 1.002, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2)
"""How much memory is tried for the smallest schedule, as multiples of the smallest proposal's."""

_SPILL_CHOICES = 6
"""How many sizes from which on tensors are spilled are tried."""


class DoesNotFitError(ValueError):
    """No plan fits the budget."""

    def __init__(self, budget: int, smallest: Schedule) -> None:
        self.budget, self.least, self.smallest = budget, smallest.peak, smallest
        super().__init__(
            f"the network does not fit into {budget:,} bytes of working memory: the least is {self.least:,} bytes"
        )


class ConstantsDoNotFitError(ValueError):
    """The region in which constants lie at rest is too small for those of a network."""

    def __init__(self, needed: int, region: MemoryRegion) -> None:
        super().__init__(f"the constants take {needed:,} bytes, {region.name} has {region.size:,}")


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """What a user may ask of the compiler."""

    budget: int | None = None
    """Bytes of the working memory that a schedule may take; None for the size of the region."""
    max_plan_parts: int = 10
    """The most parts of one cascade; 1 for no cascades."""
    recompute: bool = False
    """Whether values may be computed twice to save memory."""


def compile_graph(graph: CascaderGraph, system: System, options: CompilerOptions | None = None) -> Schedule:
    """Return the fastest schedule within the budget.

    Raises:
        DoesNotFitError: there is none.
        ConstantsDoNotFitError: the region of constants at rest is too small.
    """
    options = options or CompilerOptions()
    budget = system.working.size if options.budget is None else min(options.budget, system.working.size)
    spaces = list(_spaces(graph, system, options))
    found = [schedule for space in spaces if (schedule := space.fastest(budget)) is not None]
    if not found:
        raise DoesNotFitError(budget, _smallest(spaces))
    return min(found, key=lambda each: (each.cycles, each.peak))


def frontier(graph: CascaderGraph, system: System, options: CompilerOptions | None = None) -> tuple[Schedule, ...]:
    """Return the Pareto efficient schedules, the fastest first: each takes less memory and more cycles than the last.

    The budget is an upper limit. Raises ConstantsDoNotFitError if the region of constants at rest is too small.
    """
    options = options or CompilerOptions()
    every = [each for space in _spaces(graph, system, options) for each in space.all(options.budget)]
    found: list[Schedule] = []
    for each in sorted(every, key=lambda each: (each.cycles, each.peak)):
        if not found or each.peak < found[-1].peak:
            found.append(each)
    return tuple(found)


def least_memory(graph: CascaderGraph, system: System, options: CompilerOptions | None = None) -> int:
    """Return the bytes of the smallest schedule.

    Raises ConstantsDoNotFitError if the region of constants at rest is too small.
    """
    return _smallest(_spaces(graph, system, options or CompilerOptions())).peak


def _smallest(spaces: Iterable[_Space]) -> Schedule:
    """The schedule of least memory. There is one if nothing is spilled."""
    return min((found for space in spaces if (found := space.least()) is not None), key=lambda each: each.peak)


def _spaces(graph: CascaderGraph, system: System, options: CompilerOptions) -> Iterator[_Space]:
    """The homes that tensors may have: all in the working memory, or those from some size on in the spill region."""
    constants = sum(graph.constants_bytes)
    if constants > system.constants.size:
        raise ConstantsDoNotFitError(constants, system.constants)
    pricer = StripePricer(graph, system)
    yield _Space(Homes(graph, system), pricer, options)
    if system.spill is None:
        return
    sizes = sorted({tensor.bytes for tensor in graph.tensors})
    step = -(-len(sizes) // _SPILL_CHOICES)
    for size in sizes[::step]:
        spilled = frozenset(each.index for each in graph.tensors if each.bytes >= size)
        yield _Space(Homes(graph, system, spilled), pricer, options)


class _Space:
    """The schedules of a graph with the homes of its tensors given."""

    def __init__(self, homes: Homes, pricer: StripePricer, options: CompilerOptions) -> None:
        space = PlanSpace(homes, PartCosts(homes, pricer), options.max_plan_parts, options.recompute)
        self._search = ProposalSearch(homes.graph, space.all(), homes.spilled)
        self._lowering = Lowering(homes, pricer)
        self._alternatives = _ALTERNATIVES // max(1, len(homes.graph.parts))
        self._least: Schedule | None = None

    def fastest(self, limit: int) -> Schedule | None:
        """Return the fastest schedule within a limit.

        A proposal can be faster than one that takes more memory, since it waits less for its constants. So smaller ones
        are tried as long as they could be faster.
        """
        found = self._best(limit)
        if found is None and (least := self.least()) is not None and least.peak <= limit:
            return least
        return found

    def _best(self, limit: int) -> Schedule | None:
        best: Schedule | None = None
        left = self._alternatives
        for selection in self._search.efficient(limit):
            if best is not None and (not left or selection.proposal.cycles > best.cycles * _PATIENCE):
                break
            if best is None or selection.proposal.busy < best.cycles:
                left -= best is not None
                found = self._placed(selection, limit)
                best = min(filter(None, (best, found)), key=lambda each: (each.cycles, each.peak), default=None)
        return best

    def all(self, limit: int | None) -> Iterator[Schedule]:
        """Yield schedules within a limit, from the fastest proposal to the smallest."""
        for selection in self._search.efficient(limit):
            found = self._placed(selection, selection.proposal.memory if limit is None else limit)
            if found is not None:
                yield found
        least = self.least()
        if least is not None and (limit is None or least.peak <= limit):
            yield least

    def least(self) -> Schedule | None:
        """Return the smallest schedule, None if what it spills does not fit."""
        if self._least is None:
            self._least = self._smallest()
        return self._least

    def _smallest(self) -> Schedule | None:
        least = self._search.least()
        found = None
        for room in _ROOM:
            limit = int(least * room)
            selection = self._search.fastest(limit)
            found = None if selection is None else self._placed(selection, limit)
            if found is not None:
                break
        if found is None:
            return None
        while (smaller := self._best(found.peak - 1)) is not None:
            found = smaller
        return found

    def _placed(self, selection: Selection, limit: int) -> Schedule | None:
        """Find addresses for a proposal. If there are none, plans that are in the way are replaced by others."""
        banned: set[PlanCandidate] = set()
        trial: Selection | None = selection
        for _ in range(_TRIALS):
            if trial is None:
                return None
            found = self._lowering.schedule(trial.proposal, limit)
            if isinstance(found, Schedule):
                return found
            near = trial.candidates[max(0, found.plan - 1) : found.plan + 1]
            banned.add(max(near, key=lambda each: each.memory))
            trial = self._search.fastest(limit, banned)
        return None
