"""What Vela's plans cost by the model of nnhal's compiler, and the memory that they need if nnhal places them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cascade.pricing import PlanPricer
from benchmarks.vela.plans import VelaPlan
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import StripePricer
from nnhal_devices.ethos_u.cascader.plans.part_costs import Homes
from nnhal_devices.ethos_u.cascader.plans.plan import Proposal
from nnhal_devices.ethos_u.cascader.schedule.lowering import Lowering


@dataclass(frozen=True, slots=True)
class VelaPrice:
    """What one schedule costs."""

    exposed: int
    """Cycles by the model of nnhal's compiler."""
    hidden: int
    """The same if constants that a plan copies before its first stripe are copied while the plan before runs, in no
    memory. Vela does so if there is room, and nnhal never: these cycles are the fewest that its schedule can have."""
    placed: int
    """Bytes if nnhal places the buffers; slices of one extent stand for Vela's."""


class VelaPricer:
    """Prices schedules of one network on one system."""

    def __init__(self, graph: CascaderGraph, system: System) -> None:
        self._pricer = PlanPricer(graph, system)
        self._lowering = Lowering(Homes(graph, system), StripePricer(graph, system))

    def price(self, plans: Sequence[VelaPlan]) -> VelaPrice:
        """Price a schedule. Raises ValueError if nnhal finds no place for its buffers."""
        schedule = self._lowering.schedule(Proposal(tuple(each.plan for each in plans), 0, 0))
        if schedule is None:
            raise ValueError("no place was found for the buffers of a schedule of Vela's")
        cycles = [self._pricer.cycles(each.plan, each.slices) for each in plans]
        copies = [self._pricer.first_copies(each.plan, each.slices) for each in plans]
        before = [0, *(total - copy for total, copy in zip(cycles, copies, strict=True))]
        hidden = sum(map(min, copies, before))
        return VelaPrice(sum(cycles), sum(cycles) - hidden, schedule.peak)
