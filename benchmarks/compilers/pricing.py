"""Price of Vela's plans by the model of nnhal's compiler, and the memory that they need if nnhal places them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.compilers.domination import Point
from benchmarks.compilers.plans import VelaPlan
from nnhal_cascade.geometry.box import Box, Interval, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.performance.price import Timeline
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.plan import Proposal, WeightsIn
from nnhal_cascade.schedule.lowering import Lowering
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.schedule.walk import walk

_Copies = list[tuple[int, Interval]]
"""Parts, and the channels whose constants are copied."""


class _PlanCopies(NamedTuple):
    first: _Copies
    """Before the first stripe."""
    later: _Copies
    """One before each of the other stripes."""


class VelaPricer:
    """Prices schedules of one network on one system."""

    def __init__(self, graph: CascaderGraph, system: System) -> None:
        self._graph, self._homes = graph, Homes(graph, system)
        self._pricer = StripePricer(graph, system)
        self._lowering = Lowering(self._homes, self._pricer)

    def price(self, plans: Sequence[VelaPlan]) -> Point:
        """Return the bytes and cycles of a schedule.

        Bytes are those of nnhal's placement: rolling buffers have the rows that are alive, and slices have one extent.
        Cycles are the fewest that the schedule can have: what a plan copies before its first stripe is copied while the
        plan before runs, wherever room for that may be. Raises ValueError if no placement is found.
        """
        schedule = self._lowering.schedule(Proposal(tuple(each.plan for each in plans), 0, 0))
        if not isinstance(schedule, Schedule):
            raise ValueError("no place was found for the buffers of a schedule of Vela's")
        return Point(schedule.peak, self._cycles(plans))

    def _cycles(self, plans: Sequence[VelaPlan]) -> int:
        timeline, ready = Timeline(), dict[tuple[int, int], int]()

        def copy(wanted: _Copies) -> None:
            for part, channels in wanted:
                ready[part, channels.start] = timeline.copy(self._homes.constants_copy(part, channels))

        copies = [self._copies(each) for each in plans]
        copy(copies[0].first)
        for number, each in enumerate(plans):
            later, following = list(copies[number].later), copies[number + 1].first if number + 1 < len(plans) else []
            weights = dict(zip(each.plan.parts, each.plan.weights, strict=True))
            timeline.begin_plan()
            if not later:
                copy(following)
            for part, output in self._stripes(each):
                if later:
                    copy([later.pop(0)])
                    if not later:
                        copy(following)
                inputs = tuple(access.needs(output).shape for access in self._graph.parts[part].inputs)
                price = self._pricer.price(part, output.shape, inputs, self._homes.places(part, weights[part]))
                timeline.run(part, price, ready.get((part, output.channels.start), 0))
        return timeline.now

    def _copies(self, sliced: VelaPlan) -> _PlanCopies:
        plan = sliced.plan
        if sliced.slices:
            first, *later = [(plan.parts[0], channels) for channels in sliced.slices]
            return _PlanCopies([first], later)
        resident = [part for part, place in zip(plan.parts, plan.weights, strict=True) if place is WeightsIn.RESIDENT]
        return _PlanCopies([(part, self._whole(part).channels) for part in resident], [])

    def _stripes(self, sliced: VelaPlan) -> Iterator[tuple[int, Box]]:
        if not sliced.slices:
            return ((run.part, run.output) for run in walk(self._graph, sliced.plan))
        (part,) = sliced.plan.parts
        return ((part, self._whole(part)._replace(channels=channels)) for channels in sliced.slices)

    def _whole(self, part: int) -> Box:
        return whole(self._graph.tensors[self._graph.parts[part].output].shape)
