"""A schedule stripe by stripe, with the time of each: what tables and pictures of it are made from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from nnhal_cascade.performance.price import StripePlaces, Timeline, copy_cycles
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.plan import WeightsIn
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.schedule.steps import ConstantsCopy, PlanStart, StripeStep, steps
from nnhal_cascade.schedule.walk import StripeRun


class TimedStripe(NamedTuple):
    """A stripe, and when it runs, in cycles since the start of the schedule."""

    run: StripeRun
    start: int
    end: int
    macs: int


class TimedCopy(NamedTuple):
    """A copy of constants into the working memory, and when the DMA engine does it."""

    part: int
    start: int
    end: int


@dataclass(slots=True)
class PlanReplay:
    """A plan as it runs."""

    start: int
    """Cycles since the start of the schedule."""
    end: int
    waiting: int = 0
    """Cycles in which the NPU waits for a copy of constants."""
    stripes: list[TimedStripe] = field(default_factory=list)
    copies: list[TimedCopy] = field(default_factory=list)
    """Those that are issued while it runs, also for the plan behind it."""
    read: Counter[str] = field(default_factory=Counter)
    """Bytes read from each region."""
    written: Counter[str] = field(default_factory=Counter)
    """Bytes written to each region."""

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        return sum(stripe.macs for stripe in self.stripes)


def replay(schedule: Schedule) -> tuple[PlanReplay, ...]:
    """Return the plans of a schedule as they run, one after the other."""
    clock = _Clock(schedule)
    for step in steps(schedule):
        if isinstance(step, PlanStart):
            clock.begin(step.plan)
        elif isinstance(step, ConstantsCopy):
            clock.copy(step)
        else:
            clock.run(step)
    return tuple(clock.plans)


class _Clock:
    """Goes through the steps of a schedule, and keeps what each of them takes."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._pricer = StripePricer(schedule.graph, schedule.system)
        self._timeline = Timeline()
        self._ready: dict[tuple[int, int], int] = {}
        """For each part and slot the cycle at which its constants are there."""
        self._places: dict[int, StripePlaces] = {}
        self.plans: list[PlanReplay] = []

    def begin(self, number: int) -> None:
        self._timeline.begin_plan()
        plan = self._schedule.proposal.plans[number]
        weights = zip(plan.parts, plan.weights, strict=True)
        self._places = {part: self._places_of(part, where, number) for part, where in weights}
        self.plans.append(PlanReplay(self._timeline.now, self._timeline.now))

    def copy(self, step: ConstantsCopy) -> None:
        system, constants = self._schedule.system, self._schedule.graph.parts[step.part].constants
        count = constants.bytes_of(step.channels) if constants else 0
        cycles = copy_cycles(system, system.constants.name, system.working.name, count)
        done = self._ready[step.part, step.slot] = self._timeline.copy(cycles)
        self.plans[-1].copies.append(TimedCopy(step.part, done - cycles, done))
        self.plans[-1].read[system.constants.name] += count
        self.plans[-1].written[system.working.name] += count

    def run(self, step: StripeStep) -> None:
        timeline, plan, run = self._timeline, self.plans[-1], step.run
        shapes = tuple(box.shape for box in run.inputs)
        price = self._pricer.price(step.part, run.output.shape, shapes, self._places[step.part])
        ready = self._ready.get((step.part, step.slot), 0)
        start = max(timeline.now, ready)
        plan.waiting += start - timeline.now
        timeline.run(step.part, price, ready)
        plan.end = timeline.now
        plan.stripes.append(TimedStripe(run, start, plan.end, price.macs))
        plan.read.update(price.read)
        plan.written.update(price.written)

    def _places_of(self, part: int, weights: WeightsIn, plan: int) -> StripePlaces:
        node, system = self._schedule.graph.parts[part], self._schedule.system
        constants = {
            WeightsIn.NONE: "",
            WeightsIn.STREAMED: system.constants.name,
            WeightsIn.RESIDENT: system.working.name,
            WeightsIn.DOUBLE_BUFFERED: system.working.name,
        }
        inputs = tuple(self._region(each.tensor, plan) for each in node.inputs)
        return StripePlaces(inputs, self._region(node.output, plan), constants[weights])

    def _region(self, tensor: int, plan: int) -> str:
        """Return where a tensor lies during a plan."""
        buffers = (each for each in self._schedule.tensors if each.first <= plan <= each.last)
        return next(each.region for each in buffers if each.tensor == tensor)
