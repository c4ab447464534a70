"""The least memory of each network, beside what others publish, and whether the machine needs what was planned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.aims import Aim, statement
from benchmarks.cascade.loading import LoadedNetwork
from benchmarks.cascade.networks import BIG, FAST_ACCELERATOR, FAST_BUDGET, FAST_RATIO, MeasuredNetwork
from benchmarks.cascade.runs import MachineRun, Runner
from benchmarks.compilers.domination import Point, dominating, is_monotone
from nnhal_cascade.compiler import CompilerOptions, DoesNotFitError, compile_graph, frontier
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.schedule.walk import demanded_boxes, walk


@dataclass(frozen=True, slots=True)
class PlannedNetwork:
    """What the compiler makes of a network on a system."""

    network: MeasuredNetwork
    system: System
    uncascaded: Schedule
    """The fastest in any memory without a cascade."""
    frontier: tuple[Schedule, ...]
    """Without recomputing, the most memory first."""
    recomputing: tuple[Schedule, ...]
    """With recomputing; empty if it was not asked for."""

    @property
    def least(self) -> Schedule:
        """The schedule of the least memory in which nothing is computed twice."""
        return self.frontier[-1]

    def within(self, budget: int) -> Schedule | None:
        """Return the fastest schedule of the frontier in a budget of bytes, None if there is none."""
        fitting = [each for each in self.frontier if each.peak <= budget]
        return min(fitting, key=lambda each: each.cycles, default=None)


def planned(network: MeasuredNetwork, loaded: LoadedNetwork, system: System, recompute: bool) -> PlannedNetwork:
    """Plan a network for every budget."""
    return PlannedNetwork(
        network,
        system,
        compile_graph(loaded.graph, system, CompilerOptions(max_plan_parts=1)),
        frontier(loaded.graph, system, CompilerOptions()),
        frontier(loaded.graph, system, CompilerOptions(recompute=True)) if recompute else (),
    )


def machine_runs(found: PlannedNetwork, loaded: LoadedNetwork, every_point: bool) -> Iterator[MachineRun]:
    """Run schedules in checking mode: those of the least memory, the fastest one, or all."""
    runner = Runner(loaded, found.system)
    some = (found.least, found.frontier[0], *found.recomputing[-1:])
    for schedule in (*found.frontier, *found.recomputing) if every_point else some:
        yield runner.run(schedule)


def peak_aims(found: PlannedNetwork, loaded: LoadedNetwork, runs: Sequence[MachineRun]) -> list[Aim]:
    """Return the aims of a network on a system."""
    name = f"{found.network.name} on {found.system.accelerator.name}"
    frontiers = [[Point(each.peak, each.cycles) for each in points] for points in (found.frontier, found.recomputing)]
    sizes = " and ".join(f"{len(points)} points" for points in frontiers if points)
    faults = budget_faults(loaded.graph, found.system, budgets_between(found.least.peak, found.frontier[0].peak))
    count = f"of {len(runs)} runs"
    failure = "; ".join([count, *(run.failure for run in runs if run.failure)][:2])
    aims = [
        Aim(f"{name}: peak, nothing computed twice", found.least.peak, found.network.peak_aim, "bytes"),
        statement(f"{name}: the frontier is monotone", sum(not is_monotone(points) for points in frontiers), sizes),
        *_inclusion_aims(name, found, *frontiers),
        statement(f"{name}: budgets are kept, more is never slower", len(faults), "; ".join(faults)),
        statement(f"{name}: planned = measured", sum(not run.is_as_planned for run in runs), failure),
        statement(f"{name}: output = cpu_ref's", sum(not run.same_output for run in runs), count),
    ]
    if found.network.name == BIG and found.system.accelerator.name == FAST_ACCELERATOR:
        aims.append(_fast_aim(name, found))
    return aims


def _inclusion_aims(
    name: str, found: PlannedNetwork, points: Sequence[Point], recomputing: Sequence[Point]
) -> Iterator[Aim]:
    """What may be done need not be done, so a schedule with less freedom is never better."""
    alone = Point(found.uncascaded.peak, found.uncascaded.cycles)
    remark = f"{alone.cycles:,} cycles in {alone.memory:,} bytes"
    yield statement(f"{name}: no cascade is no better", int(dominating(alone, points) is None), remark)
    if recomputing:
        better = [point for point in points if dominating(point, recomputing) is None]
        remark = f"of {len(points)} points" + (f"; {better[0].cycles:,} in {better[0].memory:,}" if better else "")
        yield statement(f"{name}: computing once is no better", len(better), remark)


def _fast_aim(name: str, found: PlannedNetwork) -> Aim:
    """The least cycles in little memory, beside those if the NPU's pipeline drains after each stripe."""
    what = f"{name}: cycles in {FAST_BUDGET:,} bytes over those without cascades"
    schedule = found.within(FAST_BUDGET)
    if schedule is None:
        return Aim(what, None, FAST_RATIO, "x", "nothing fits")
    drained = drained_cycles(schedule) / drained_cycles(found.uncascaded)
    remark = f"in {schedule.peak:,} bytes; {drained:.3f} if the pipeline drains after each stripe"
    return Aim(what, schedule.cycles / found.uncascaded.cycles, FAST_RATIO, "x", remark)


def peak_table(found: Sequence[PlannedNetwork]) -> Table:
    """Return a table with a row for each network and system."""
    table = Table("network", "accelerator", title="Least memory, nothing computed twice, weights streaming from flash")
    for name in ("no cascade", "cycles", "least", "cycles", "of no cascade", "aim", "with recomputing", "cycles"):
        table.add_column(name, justify="right")
    table.add_column("others, bytes")
    for each in found:
        recomputing = each.recomputing[-1] if each.recomputing else None
        table.add_row(
            each.network.name,
            each.system.accelerator.name,
            f"{each.uncascaded.peak:,}",
            f"{each.uncascaded.cycles:,}",
            f"{each.least.peak:,}",
            f"{each.least.cycles:,}",
            f"{each.least.cycles / each.uncascaded.cycles:.1%}",
            f"{each.network.peak_aim:,}",
            f"{recomputing.peak:,}" if recomputing else "",
            f"{recomputing.cycles:,}" if recomputing else "",
            "; ".join(
                f"{other.compiler} {other.peak:,}" + (f" ({other.remark})" if other.remark else "")
                for other in each.network.published
            ),
        )
    return table


def run_table(runs: Sequence[MachineRun]) -> Table:
    """Return a table with a row for each schedule that ran."""
    table = Table("network", "system", title="On the machine, in checking mode")
    for name in ("planned bytes", "measured", "planned cycles", "measured", "output", "seconds"):
        table.add_column(name, justify="right")
    for run in runs:
        output = "none" if run.failure else "cpu_ref's" if run.same_output else "differs"
        table.add_row(
            run.network,
            run.system,
            f"{run.schedule.peak:,}",
            f"{run.peak:,}",
            f"{run.schedule.cycles:,}",
            f"{run.cycles:,}",
            output,
            f"{run.seconds:.1f}",
        )
    return table


def frontier_table(found: PlannedNetwork) -> Table:
    """Return a table with a row for each point, with what each byte less costs."""
    name = f"{found.network.name} on {found.system.accelerator.name}"
    table = Table(title=f"The frontier of {name}")
    for column in ("bytes", "cycles", "of the fastest", "cycles for a byte less", "cascades", "elements computed"):
        table.add_column(column, justify="right")
    points = found.recomputing or found.frontier
    before: Schedule | None = None
    for each in points:
        price = "" if before is None else f"{(each.cycles - before.cycles) / (before.peak - each.peak):,.1f}"
        plans = each.proposal.plans
        table.add_row(
            f"{each.peak:,}",
            f"{each.cycles:,}",
            f"{each.cycles / points[0].cycles:.2f}",
            price,
            "+".join(str(len(plan.parts)) for plan in plans if len(plan.parts) > 1) or "-",
            f"{repetition(each):.2f}",
        )
        before = each
    return table


_STEPS = 12


def budgets_between(least: int, most: int) -> list[int]:
    """Return budgets from ``least`` to ``most`` bytes, in equal ratios."""
    ratio = most / least
    return [round(least * ratio ** (step / (_STEPS - 1))) for step in range(_STEPS)]


def budget_faults(graph: CascaderGraph, system: System, budgets: Sequence[int]) -> list[str]:
    """Return what is wrong with the schedules for budgets in rising order: nothing should be.

    One byte less than the first budget should be refused, with that budget as the least.
    """
    faults = []
    cycles: int | None = None
    for budget in budgets:
        found = compile_graph(graph, system, CompilerOptions(budget=budget))
        if found.peak > budget:
            faults.append(f"{budget:,} bytes are exceeded by {found.peak - budget:,}")
        if cycles is not None and found.cycles > cycles:
            faults.append(f"{budget:,} bytes are slower than less by {found.cycles - cycles:,} cycles")
        cycles = found.cycles
    try:
        compile_graph(graph, system, CompilerOptions(budget=budgets[0] - 1))
        faults.append(f"{budgets[0] - 1:,} bytes are enough, and not just {budgets[0]:,}")
    except DoesNotFitError as error:
        if error.least != budgets[0]:
            faults.append(f"{error.least:,} bytes are said to be the least, and {budgets[0]:,} are enough")
    return faults


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


def repetition(schedule: Schedule) -> float:
    """Return the elements that a schedule computes, over those that there are: 1 if nothing is computed twice."""
    graph = schedule.graph
    computed = sum(
        box.shape.elements
        for plan in schedule.proposal.plans
        for tile in plan.tiles
        for box in demanded_boxes(graph, plan, tile).values()
    )
    return computed / sum(graph.tensors[part.output].shape.elements for part in graph.parts)
