"""From a proposal to a schedule: walk its plans, place its buffers, count its cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph, PartKind
from nnhal_cascade.graph.running_sums import runs_on
from nnhal_cascade.performance.price import Price, Timeline
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes, Lifetimes
from nnhal_cascade.plans.plan import Plan, Proposal, WeightsIn
from nnhal_cascade.schedule.placement import PlacedPlan, Placer, PlanNeeds
from nnhal_cascade.schedule.profile import PlanProfile, advances_by_rows, profile
from nnhal_cascade.schedule.schedule import ConstantsBuffer, Schedule, TensorBuffer
from nnhal_cascade.schedule.steps import ConstantsCopy, PlanStart, steps
from nnhal_cascade.schedule.walk import StripeRun, walk

_ROOM = (0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1)
"""How much more than the least memory is tried if the search for addresses finds none: shares of it."""


@dataclass(frozen=True, slots=True)
class _Scratch:
    """A buffer that one plan alone uses: a rolling buffer, or a part's constants."""

    tensor: int | None
    part: int | None
    sizes: tuple[int, int]
    """Bytes, forwards and backwards."""
    slots: int = 1


class _Span(NamedTuple):
    """Stripes of a plan that run one after the other: only the first of them may wait for constants."""

    start: StripeRun
    price: Price
    """The cycles of all, with what it takes to fill the pipeline, and nothing else."""


@dataclass(frozen=True, slots=True)
class _Addressed:
    """A proposal with the addresses that were found for it."""

    placer: Placer
    least: int
    """Bytes that it takes at least."""
    ample: int
    """Bytes in which its constants are likely to be copied early."""
    within: dict[int, tuple[Schedule | None, int]] = field(default_factory=dict)
    """By room: the schedule, if there is one, and how many plans have been placed."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """No addresses were found for a proposal."""

    plan: int
    """The first plan of the proposal that could not be placed, whatever the plans before it did."""


class Lowering:
    """Makes schedules of the proposals of one graph. What it finds out about a plan is kept."""

    def __init__(self, homes: Homes, pricer: StripePricer) -> None:
        self._homes, self._graph, self._pricer = homes, homes.graph, pricer
        self._lifetimes = Lifetimes(homes.graph)
        self._spill_room = _spill_room(homes)
        self._known: dict[Proposal, _Addressed] = {}
        self._walks: dict[tuple[Plan, bool], list[StripeRun]] = {}
        self._profiles: dict[Plan, tuple[PlanProfile, PlanProfile]] = {}
        self._spans: dict[tuple[Plan, bool], list[_Span]] = {}

    def schedule(self, proposal: Proposal, limit: int | None = None) -> Schedule | Unplaced:
        """Return the proposal with addresses within ``limit`` bytes, or where no placement is found.

        If the tensors that it spills do not fit into their region, that is at its first plan.
        """
        known = self._known.get(proposal)
        if known is None:
            placer = Placer([tensor.bytes for tensor in self._graph.tensors], self.needs(proposal))
            known = self._known[proposal] = _Addressed(placer, placer.least(), placer.ample())
        deepest = 0
        for room in (int(known.least * (1 + room)) for room in _ROOM):
            if limit is not None and room > limit:
                break
            found, reached = self._within(proposal, known, room)
            if found is not None:
                if limit is not None and room < known.ample <= limit:
                    # With more room constants can be copied earlier.
                    wide, _ = self._within(proposal, known, known.ample)
                    found = min(filter(None, (found, wide)), key=lambda each: each.cycles)
                return found if found.spill_peak <= self._spill_room else Unplaced(0)
            deepest = max(deepest, reached)
        return Unplaced(max(0, deepest - 1))

    def _within(self, proposal: Proposal, known: _Addressed, room: int) -> tuple[Schedule | None, int]:
        """The proposal in some room, None if no placement is found, and how many plans have been placed."""
        found = known.within.get(room)
        if found is None:
            placed = known.placer.place(room)
            schedule = None
            if placed is not None:
                schedule = self._made(proposal, [self._scratch(plan) for plan in proposal.plans], placed)
            found = known.within[room] = schedule, known.placer.deepest
        return found

    def needs(self, proposal: Proposal) -> list[PlanNeeds]:
        """Return what is placed for a proposal: for the network's inputs, and then for each plan."""
        return [self._inputs(), *(self._needs(plan, self._scratch(plan)) for plan in proposal.plans)]

    def _inputs(self) -> PlanNeeds:
        """The network's inputs, which are there before the first plan."""
        inputs = [each.index for each in self._graph.tensors if each.is_input and each.index not in self._homes.spilled]
        unread = frozenset(each for each in inputs if self._lifetimes.last[each] < 0)
        nothing = PlanProfile()
        return PlanNeeds(tuple(inputs), unread, ((), ()), (nothing, nothing))

    def _needs(self, plan: Plan, scratch: Sequence[_Scratch]) -> PlanNeeds:
        first, stop = plan.parts[0], plan.parts[-1] + 1
        output = self._graph.parts[stop - 1].output
        written = (*self._lifetimes.escaping(first, stop), output)
        unread = frozenset({output} if self._lifetimes.last[output] < stop else ())
        return PlanNeeds(
            tuple(each for each in written if each not in self._homes.spilled),
            unread.union(self._lifetimes.dying(first, stop)),
            (tuple(each.sizes[0] for each in scratch), tuple(each.sizes[1] for each in scratch)),
            self._profile(plan),
            frozenset(index for index, each in enumerate(scratch) if each.part is not None),
        )

    def _profile(self, plan: Plan) -> tuple[PlanProfile, PlanProfile]:
        found = self._profiles.get(plan)
        if found is None:
            forwards = profile(self._graph, plan, self._walked(self._graph, plan, False))
            backwards = forwards
            if advances_by_rows(self._graph, plan) and not self._is_one_way(plan):
                backwards = profile(self._graph, plan, self._walked(self._graph, plan, True))
            found = self._profiles[plan] = forwards, backwards
        return found

    def _is_one_way(self, plan: Plan) -> bool:
        """True if a plan asks the client for values in the order of its stripes, or adds them up in that order."""
        if len(plan.tiles) == 1 and any(self._graph.parts[part].kind is PartKind.FEED for part in plan.parts):
            return True
        return any(runs_on(self._graph, part) for part in plan.parts)

    def _walked(self, graph: CascaderGraph, plan: Plan, backwards: bool) -> list[StripeRun]:
        found = self._walks.get((plan, backwards))
        if found is None:
            found = self._walks[plan, backwards] = list(walk(graph, plan, backwards))
        return found

    def _scratch(self, plan: Plan) -> list[_Scratch]:
        forwards, backwards = self._profile(plan)
        found = [
            _Scratch(tensor, None, (self._bytes(tensor, extents), self._bytes(tensor, backwards.extents[tensor])))
            for tensor, extents in forwards.extents.items()
        ]
        for part, stripe, weights in zip(plan.parts, plan.stripes, plan.weights, strict=True):
            if weights in (WeightsIn.RESIDENT, WeightsIn.DOUBLE_BUFFERED):
                size = self._homes.constants_bytes(part, plan.along, stripe)
                slots = 2 if weights == WeightsIn.DOUBLE_BUFFERED else 1
                found.append(_Scratch(None, part, (size, size), slots))
        return found

    def _bytes(self, tensor: int, extents: Shape) -> int:
        return extents.elements * self._graph.tensors[tensor].element_bytes

    def _made(
        self, proposal: Proposal, scratch: Sequence[Sequence[_Scratch]], placed: Sequence[PlacedPlan]
    ) -> Schedule:
        working = self._homes.system.working.name
        tensors: list[TensorBuffer] = []
        constants: list[ConstantsBuffer] = []
        plan_of = {part: number for number, plan in enumerate(proposal.plans) for part in plan.parts}
        ends = [plan_of.get(max(last, 0), len(proposal.plans) - 1) for last in self._lifetimes.last]
        for number, where in enumerate(placed, -1):
            for tensor, address in where.arriving.items():
                node = self._graph.tensors[tensor]
                tensors.append(
                    TensorBuffer(tensor, working, address, node.shape, node.element_bytes, max(0, number), ends[tensor])
                )
            if number < 0:
                continue
            profiles = self._profile(proposal.plans[number])[where.backwards]
            for each, address in zip(scratch[number], where.scratch, strict=True):
                if each.tensor is not None:
                    size = self._graph.tensors[each.tensor].element_bytes
                    extents = profiles.extents[each.tensor]
                    tensors.append(TensorBuffer(each.tensor, working, address, extents, size, number, number))
                elif each.part is not None:
                    early = self._early(number, address, each.sizes[0], tensors, constants)
                    slot = each.sizes[0] // each.slots
                    constants.append(
                        ConstantsBuffer(each.part, working, address, slot, each.slots, number, number - early)
                    )
        interior = frozenset(each.tensor for plan in scratch for each in plan if each.tensor is not None)
        starts = [0 if producer is None else plan_of[producer] for producer in self._graph.producers]
        spilled, spill_peak = place_spilled(self._homes, interior, starts, ends)
        peak = max(
            [each.address + each.bytes for each in tensors]
            + [each.address + each.bytes * each.slots for each in constants],
            default=0,
        )
        found = Schedule(
            self._graph,
            self._homes.system,
            proposal,
            tuple(each.backwards for each in placed[1:]),
            (*tensors, *spilled),
            tuple(constants),
            peak,
            spill_peak,
        )
        return replace(found, cycles=self._cycles(found))

    def _early(
        self, plan: int, address: int, size: int, tensors: Sequence[TensorBuffer], constants: Sequence[ConstantsBuffer]
    ) -> bool:
        """Return whether a buffer of a plan is free in the plan before as well."""
        taken = [(each.address, each.bytes) for each in tensors if each.first < plan <= each.last + 1]
        taken += [
            (each.address, each.bytes * each.slots) for each in constants if plan - 1 in (each.plan, each.copied_in)
        ]
        return plan > 0 and all(address + size <= other or other + length <= address for other, length in taken)

    def _cycles(self, schedule: Schedule) -> int:
        """The cycles of a schedule, step by step."""
        timeline, homes = Timeline(), self._homes
        ready: dict[tuple[int, int], int] = {}
        spans: Iterator[_Span] = iter(())
        for step in steps(schedule, self._span_starts):
            if isinstance(step, PlanStart):
                timeline.begin_plan()
                spans = iter(self._spanned(schedule.proposal.plans[step.plan], schedule.reversed[step.plan]))
            elif isinstance(step, ConstantsCopy):
                ready[step.part, step.slot] = timeline.copy(homes.constants_copy(step.part, step.channels))
            else:
                timeline.run(step.part, next(spans).price, ready.get((step.part, step.slot), 0))
        return timeline.end

    def _span_starts(self, _: CascaderGraph, plan: Plan, backwards: bool) -> list[StripeRun]:
        return [span.start for span in self._spanned(plan, backwards)]

    def _spanned(self, plan: Plan, backwards: bool) -> list[_Span]:
        """The stripes of a plan, joined to spans within which the NPU waits for no constants."""
        found = self._spans.get((plan, backwards))
        if found is not None:
            return found
        found = self._spans[plan, backwards] = []
        interior = frozenset(self._profile(plan)[0].extents)
        weights = dict(zip(plan.parts, plan.weights, strict=True))
        places = {part: self._homes.places(part, weights[part], interior) for part in plan.parts}
        timeline, begun = Timeline(), set[int]()
        for run in self._walked(self._graph, plan, backwards):
            part, before = run.part, timeline.now
            shapes = tuple(box.shape for box in run.inputs)
            timeline.run(part, self._pricer.price(part, run.output.shape, shapes, places[part]))
            price = Price(timeline.now - before, 0, 0, {}, {})
            if part in begun and weights[part] != WeightsIn.DOUBLE_BUFFERED:
                span = found[-1]
                found[-1] = span._replace(price=price._replace(cycles=span.price.cycles + price.cycles))
            else:
                found.append(_Span(run, price))
                begun.add(part)
        return found


def _spill_room(homes: Homes) -> int:
    """The bytes of the spill region for tensors: without the constants, if they lie there at rest."""
    spill = homes.system.spill
    if spill is None:
        return 0
    return spill.size - (sum(homes.graph.constants_bytes) if spill == homes.system.constants else 0)


def place_spilled(
    homes: Homes, interior: frozenset[int], first: Sequence[int], last: Sequence[int]
) -> tuple[list[TensorBuffer], int]:
    """Return the buffers of spilled tensors, the largest first at the lowest free address, and their peak in bytes.

    ``interior`` tensors lie between the parts of a plan and are not spilled. ``first`` and ``last`` are the plans in
    which each tensor is alive.
    """
    spill = homes.system.spill
    if spill is None:
        return [], 0
    found: list[TensorBuffer] = []
    for index in sorted(homes.spilled - interior, key=lambda each: -homes.graph.tensors[each].bytes):
        tensor = homes.graph.tensors[index]
        address = 0
        for other in sorted(found, key=lambda each: each.address):
            apart = other.last < first[index] or last[index] < other.first
            if not apart and other.address < address + tensor.bytes:
                address = max(address, other.address + other.bytes)
        found.append(
            TensorBuffer(index, spill.name, address, tensor.shape, tensor.element_bytes, first[index], last[index])
        )
    return found, max((each.address + each.bytes for each in found), default=0)
