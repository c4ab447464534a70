"""What a schedule would take if the NPU did not overlap a stripe with the one before."""

from __future__ import annotations

from collections import defaultdict

from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.schedule.walk import walk


def drained_cycles(schedule: Schedule) -> int:
    """Return the cycles of a schedule if each stripe fills the NPU's pipeline anew, and not just each part of a plan.

    It is an upper bound: copies of constants could hide some of it.
    """
    graph, proposal = schedule.graph, schedule.proposal
    homes = Homes(graph, schedule.system, proposal.spilled)
    pricer = StripePricer(graph, schedule.system)
    total = schedule.cycles
    for plan in proposal.plans:
        weights = dict(zip(plan.parts, plan.weights, strict=True))
        inside = frozenset(graph.parts[part].output for part in plan.parts[:-1])
        fills: dict[int, list[int]] = defaultdict(list)
        for run in walk(graph, plan):
            inputs = tuple(box.shape for box in run.inputs)
            price = pricer.price(run.part, run.output.shape, inputs, homes.places(run.part, weights[run.part], inside))
            fills[run.part].append(price.fill)
        total += sum(sum(each) - max(each) for each in fills.values())
    return total
