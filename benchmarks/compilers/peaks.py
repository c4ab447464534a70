"""The least memory of each network, beside what others publish, and whether the machine needs what was planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.compilers.domination import Point, dominating, is_monotone
from benchmarks.compilers.machine import LoadedNetwork, MachineRun, Runner
from nnhal_cascade.compiler import CompilerOptions, DoesNotFitError, compile_graph, frontier
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_tools.bench.runner import Aim, figure_table, statement


@dataclass(frozen=True, slots=True)
class Published:
    """A peak that another compiler reaches on a network."""

    compiler: str
    peak: int
    """Bytes, with the network's input and output."""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredNetwork:
    """A network with its aims."""

    name: str
    """The file's name without its suffix."""
    peak_aim: int
    """Bytes, without recomputing."""
    published: tuple[Published, ...]


VELA = "Vela 5.2.0"
"""``ethos-u-vela`` 5.2.0, ``--optimise Size`` on u55-128, either core; ``python -m benchmarks.compilers`` runs it."""
TVM = "TVM 0.12.0"
"""The cascader of TVM 0.12.0, which later releases do not have, on u55-128: the smallest point of its Pareto set."""
_SLOW = "stripes on several axes, {} x cycles"

NETWORKS = (
    MeasuredNetwork(
        "mobilenet_v1_1.0_224",
        240_128,
        (
            Published(VELA, 451_584),
            Published(TVM, 405_056),
            Published(TVM, 286_200, _SLOW.format(2.4)),
        ),
    ),
    MeasuredNetwork(
        "mobilenet_v2_1.0_224",
        204_288,
        (
            Published(VELA, 361_984),
            Published(TVM, 302_960),
            Published(TVM, 236_672, _SLOW.format(1.6)),
        ),
    ),
    MeasuredNetwork("mobilenet_v1_0.25_96", 28_032, (Published(VELA, 49_152), Published(TVM, 38_128))),
    MeasuredNetwork("ds_cnn_kws", 8_640, (Published(VELA, 16_000), Published(TVM, 17_424))),
    MeasuredNetwork("two_conv_rfc", 9_504, (Published(VELA, 15_920), Published(TVM, 13_928))),
)
BIG = "mobilenet_v1_1.0_224"
"""The network of the aims that concern one network."""
FAST_ACCELERATOR = "u55-128"
FAST_BUDGET = 280_000
"""Bytes in which MobileNetV1 should run on it …"""
FAST_RATIO = 1.01
"""… in at most so many times the cycles that it needs without cascades."""


@dataclass(frozen=True, slots=True)
class PlannedNetwork:
    """The compiler's plan of a network on a system."""

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
        frontier(loaded.graph, system, CompilerOptions()).points,
        frontier(loaded.graph, system, CompilerOptions(recompute=True)).points if recompute else (),
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
    """Yield that what may be done need not be done: so a schedule with less freedom is never better."""
    alone = Point(found.uncascaded.peak, found.uncascaded.cycles)
    remark = f"{alone.cycles:,} cycles in {alone.memory:,} bytes"
    yield statement(f"{name}: no cascade is no better", int(dominating(alone, points) is None), remark)
    if recomputing:
        better = [point for point in points if dominating(point, recomputing) is None]
        remark = f"of {len(points)} points" + (f"; {better[0].cycles:,} in {better[0].memory:,}" if better else "")
        yield statement(f"{name}: computing once is no better", len(better), remark)


def _fast_aim(name: str, found: PlannedNetwork) -> Aim:
    """Return the aim of the least cycles in little memory."""
    what = f"{name}: cycles in {FAST_BUDGET:,} bytes over those without cascades"
    schedule = found.within(FAST_BUDGET)
    if schedule is None:
        return Aim(what, None, FAST_RATIO, "x", "nothing fits")
    ratio = schedule.cycles / found.uncascaded.cycles
    return Aim(what, ratio, FAST_RATIO, "x", f"in {schedule.peak:,} bytes")


def peak_table(found: Sequence[PlannedNetwork]) -> Table:
    """Return a table with a row for each network and system."""
    columns = "no cascade,cycles,least,cycles,of no cascade,aim,with recomputing,cycles,others"
    title = "Least memory in bytes, nothing computed twice, weights streaming from flash"
    return figure_table(title, "network,accelerator", columns, map(_peak_row, found))


def _peak_row(each: PlannedNetwork) -> list[str]:
    recomputing = each.recomputing[-1] if each.recomputing else None
    others = [
        f"{other.compiler} {other.peak:,}" + (f" ({other.remark})" if other.remark else "")
        for other in each.network.published
    ]
    return [
        each.network.name,
        each.system.accelerator.name,
        *(f"{figure:,}" for own in (each.uncascaded, each.least) for figure in (own.peak, own.cycles)),
        f"{each.least.cycles / each.uncascaded.cycles:.1%}",
        f"{each.network.peak_aim:,}",
        *((f"{recomputing.peak:,}", f"{recomputing.cycles:,}") if recomputing else ("", "")),
        "; ".join(others),
    ]


def run_table(runs: Sequence[MachineRun]) -> Table:
    """Return a table with a row for each schedule that ran."""
    columns = "planned bytes,measured,planned cycles,measured,output,seconds"
    return figure_table("On the machine, in checking mode", "network,system", columns, map(_run_row, runs))


def _run_row(run: MachineRun) -> list[str]:
    output = "none" if run.failure else "cpu_ref's" if run.same_output else "differs"
    figures = (run.schedule.peak, run.peak, run.schedule.cycles, run.cycles)
    return [run.network, run.system, *(f"{figure:,}" for figure in figures), output, f"{run.seconds:.1f}"]


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
