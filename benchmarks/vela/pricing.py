"""What Vela's plans cost by the model of nnhal's compiler, and the memory that they need if nnhal places them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cascade.pricing import PlanPricer
from benchmarks.vela.domination import Point
from benchmarks.vela.plans import VelaPlan
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import StripePricer
from nnhal_devices.ethos_u.cascader.plans.part_costs import Homes
from nnhal_devices.ethos_u.cascader.plans.plan import Proposal
from nnhal_devices.ethos_u.cascader.schedule.lowering import Lowering


class VelaPricer:
    """Prices schedules of one network on one system."""

    def __init__(self, graph: CascaderGraph, system: System) -> None:
        self._pricer = PlanPricer(graph, system)
        self._lowering = Lowering(Homes(graph, system), StripePricer(graph, system))

    def price(self, plans: Sequence[VelaPlan]) -> Point:
        """Return the bytes and cycles of a schedule. Slices of one extent stand for Vela's in its bytes."""
        schedule = self._lowering.schedule(Proposal(tuple(each.plan for each in plans), 0, 0))
        if schedule is None:
            raise ValueError("nnhal finds no place for the buffers of a schedule of Vela's")
        return Point(schedule.peak, sum(self._pricer.cycles(each.plan, each.slices) for each in plans))
