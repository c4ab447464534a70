"""A schedule stripe by stripe, with the time of each: what tables and pictures of it are made from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from nnhal_devices.ethos_u.cascader.performance.copying import copy_cycles
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import StripePricer
from nnhal_devices.ethos_u.cascader.schedule.walk import walk

from nnhal_devices.ethos_u.cascader.geometry.box import Interval
from nnhal_devices.ethos_u.cascader.performance.price import Price, StripePlaces
from nnhal_devices.ethos_u.cascader.plans.plan import Plan, WeightsIn
from nnhal_devices.ethos_u.cascader.schedule.schedule import Schedule
from nnhal_devices.ethos_u.cascader.schedule.stripe_run import StripeRun


class TimedStripe(NamedTuple):
    """A stripe, and when it runs, in cycles since the start of the schedule."""

    run: StripeRun
    start: int
    end: int
    macs: int


@dataclass(slots=True)
class PlanReplay:
    """A plan as it runs."""

    start: int
    """Cycles since the start of the schedule."""
    end: int = 0
    copy_cycles: int = 0
    """Cycles of copies of constants while nothing else runs."""
    stripes: list[TimedStripe] = field(default_factory=list)
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
    pricer = StripePricer(schedule.graph, schedule.system)
    replays: list[PlanReplay] = []
    now = 0
    for number, plan in enumerate(schedule.proposal.plans):
        replays.append(_PlanClock(schedule, pricer, number, plan, now).run())
        now = replays[-1].end
    return tuple(replays)


class _PlanClock:
    """The cycles of one plan, in the order in which they pass."""

    def __init__(self, schedule: Schedule, pricer: StripePricer, number: int, plan: Plan, start: int) -> None:
        self._schedule, self._pricer, self._number, self._plan = schedule, pricer, number, plan
        self._weights = dict(zip(plan.parts, plan.weights, strict=True))
        self._places = {part: self._places_of(part) for part in plan.parts}
        self._replay = PlanReplay(start)

    def run(self) -> PlanReplay:
        schedule, number = self._schedule, self._number
        runs = list(walk(schedule.graph, self._plan, number, schedule.reversed[number]))
        prices = [self._price(run) for run in runs]
        fills: dict[int, int] = {}
        for run, price in zip(runs, prices, strict=True):
            fills[run.part] = max(fills.get(run.part, 0), price.fill)
        resident = (part for part, weights in self._weights.items() if weights == WeightsIn.RESIDENT)
        self._replay.copy_cycles = sum(map(self._copy_all, resident))
        copies = [self._copy_for(run) for run in runs]
        self._replay.copy_cycles += copies[0]
        now = self._replay.start + self._replay.copy_cycles
        for run, price, copy in zip(runs, prices, [*copies[1:], 0], strict=True):
            end = now + max(price.cycles, copy) + fills.pop(run.part, 0)
            self._replay.stripes.append(TimedStripe(run, now, end, price.macs))
            self._replay.read.update(price.read)
            self._replay.written.update(price.written)
            now = end
        self._replay.end = now
        return self._replay

    def _price(self, run: StripeRun) -> Price:
        shapes = tuple(box.shape for box in run.inputs)
        return self._pricer.price(run.part, run.output.shape, shapes, self._places[run.part])

    def _places_of(self, part: int) -> StripePlaces:
        node, system = self._schedule.graph.parts[part], self._schedule.system
        weights = self._weights[part]
        at_rest = system.constants.name if weights == WeightsIn.STREAMED else ""
        copied = weights in (WeightsIn.RESIDENT, WeightsIn.DOUBLE_BUFFERED)
        return StripePlaces(
            tuple(self._region(each.tensor) for each in node.inputs),
            self._region(node.output),
            system.working.name if copied else at_rest,
        )

    def _region(self, tensor: int) -> str:
        return next(
            each.region
            for each in self._schedule.tensors
            if each.tensor == tensor and each.first <= self._number <= each.last
        )

    def _copy_all(self, part: int) -> int:
        constants = self._schedule.graph.parts[part].constants
        output = self._schedule.graph.tensors[self._schedule.graph.parts[part].output]
        return self._copy(constants.bytes_of(Interval(0, output.shape.channels)) if constants else 0)

    def _copy_for(self, run: StripeRun) -> int:
        """The cycles of the copy that a stripe needs before it runs."""
        constants = self._schedule.graph.parts[run.part].constants
        if constants is None or self._weights[run.part] != WeightsIn.DOUBLE_BUFFERED:
            return 0
        return self._copy(constants.bytes_of(run.output.channels))

    def _copy(self, count: int) -> int:
        system = self._schedule.system
        self._replay.read[system.constants.name] += count
        self._replay.written[system.working.name] += count
        return copy_cycles(system, system.constants.name, system.working.name, count)
