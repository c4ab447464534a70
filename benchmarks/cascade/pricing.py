"""The cycles of plans, counted stripe by stripe: those of other compilers, and with pipelines that drain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal_devices.ethos_u.cascader.geometry.box import Box, Interval, whole
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import StripePricer
from nnhal_devices.ethos_u.cascader.plans.part_costs import Homes
from nnhal_devices.ethos_u.cascader.plans.plan import Plan, WeightsIn
from nnhal_devices.ethos_u.cascader.schedule.walk import walk

Slices = Sequence[Interval]
"""Channels that are computed one after the other."""


class PlanPricer:
    """Prices plans of which all activations lie in the working memory.

    If ``drains``, the pipeline is empty before each stripe, and not just before each part of a plan.
    """

    def __init__(self, graph: CascaderGraph, system: System, drains: bool = False) -> None:
        self._graph, self._homes, self._drains = graph, Homes(graph, system), drains
        self._pricer = StripePricer(graph, system)

    def cycles(self, plan: Plan, slices: Slices = ()) -> int:
        """Return the cycles of a plan. ``slices`` take the place of the stripes of one part along the channels."""
        weights = dict(zip(plan.parts, plan.weights, strict=True))
        fills = dict.fromkeys(plan.parts, 0)
        total = before = 0
        for part, output in self._stripes(plan, slices):
            place = weights[part]
            inputs = tuple(each.needs(output).shape for each in self._graph.parts[part].inputs)
            price = self._pricer.price(part, output.shape, inputs, self._homes.places(part, place))
            cycles = price.cycles + (price.fill if self._drains else 0)
            fills[part] = max(fills[part], 0 if self._drains else price.fill)
            if place is WeightsIn.DOUBLE_BUFFERED:
                # The constants of this stripe are copied while the one before runs; the first copy is counted below.
                total += max(before, self._homes.constants_copy(part, output.channels)) if before else 0
                before = cycles
            else:
                total += cycles
        return self.first_copies(plan, slices) + total + before + sum(fills.values())

    def first_copies(self, plan: Plan, slices: Slices = ()) -> int:
        """Return the cycles of the copies of constants before the first stripe."""
        total = 0
        for part, stripe, place in zip(plan.parts, plan.stripes, plan.weights, strict=True):
            if place is WeightsIn.RESIDENT:
                total += self._homes.constants_copy(part)
            elif place is WeightsIn.DOUBLE_BUFFERED:
                total += self._homes.constants_copy(part, slices[0] if slices else Interval(0, stripe))
        return total

    def _stripes(self, plan: Plan, slices: Slices) -> Iterator[tuple[int, Box]]:
        if not slices:
            yield from ((run.part, run.output) for run in walk(self._graph, plan))
            return
        (part,) = plan.parts
        output = whole(self._graph.tensors[self._graph.parts[part].output].shape)
        yield from ((part, output._replace(channels=channels)) for channels in slices)
