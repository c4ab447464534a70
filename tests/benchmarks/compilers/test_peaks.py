"""Aims for each network."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.compilers.chains import chain
from benchmarks.compilers.machine import LoadedNetwork, MachineRun
from benchmarks.compilers.peaks import (
    BIG,
    FAST_ACCELERATOR,
    NETWORKS,
    MeasuredNetwork,
    PlannedNetwork,
    budget_faults,
    budgets_between,
    peak_aims,
    peak_table,
    planned,
    run_table,
)
from nnhal.resolved import ResolvedModel
from nnhal.types import Model, Subgraph
from nnhal_cascade.compiler import frontier
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.schedule.schedule import Schedule

SYSTEM = system_for(FAST_ACCELERATOR)


@pytest.fixture(scope="module")
def loaded() -> LoadedNetwork:
    nothing = Subgraph((), (), (), ())
    return LoadedNetwork(Path(f"{BIG}.tflite"), ResolvedModel(Model(nothing), ({},)), chain(4))


@pytest.fixture(scope="module")
def found(loaded: LoadedNetwork) -> PlannedNetwork:
    return planned(MeasuredNetwork(BIG, 1 << 20, ()), loaded, SYSTEM, recompute=True)


def _run(schedule: Schedule, **measured: int | bool | str) -> MachineRun:
    return MachineRun(BIG, SYSTEM.name, schedule, **measured)  # type: ignore[arg-type]


def test_a_run_with_other_bytes_or_cycles_is_not_as_planned(found: PlannedNetwork) -> None:
    peak, cycles = found.least.peak, found.least.cycles
    assert _run(found.least, peak=peak, cycles=cycles).is_as_planned
    assert not _run(found.least, peak=peak + 1, cycles=cycles).is_as_planned
    assert not _run(found.least, failure="no slot").is_as_planned


def test_aims_count_runs_that_are_not_as_planned(found: PlannedNetwork, loaded: LoadedNetwork) -> None:
    good = _run(found.least, peak=found.least.peak, cycles=found.least.cycles, same_output=True)
    bad = _run(found.least, failure="no slot")
    aims = {aim.what.split(": ")[1]: aim for aim in peak_aims(found, loaded, [good, bad])}
    assert aims["planned = measured"].figure == 1
    assert aims["planned = measured"].remark == "of 2 runs; no slot"
    assert aims["output = cpu_ref's"].figure == 1
    assert aims["peak, nothing computed twice"].figure == found.least.peak
    assert aims["budgets are kept, more is never slower"].is_met
    assert aims["the frontier is monotone"].is_met


def test_the_fastest_within_a_budget_is_of_the_frontier(found: PlannedNetwork) -> None:
    assert found.within(found.least.peak) == found.least
    assert found.within(found.least.peak - 1) is None
    assert found.within(1 << 30) == found.frontier[0]


def test_tables_have_a_row_for_each(found: PlannedNetwork) -> None:
    assert peak_table([found, found]).row_count == 2
    assert run_table([_run(found.least, failure="no slot")]).row_count == 1


def test_the_aims_are_below_what_others_reach() -> None:
    assert all(network.peak_aim < min(other.peak for other in network.published) for network in NETWORKS)


def test_budgets_go_from_the_least_to_the_most() -> None:
    found = budgets_between(1_000, 64_000)
    assert (found[0], found[-1]) == (1_000, 64_000)
    assert found == sorted(set(found))


def test_the_budgets_of_a_chain_are_kept() -> None:
    graph, system = chain(3), system_for("u55-128")
    points = frontier(graph, system).points
    assert budget_faults(graph, system, [each.peak for each in reversed(points)]) == []


def test_a_budget_that_is_not_the_least_is_a_fault() -> None:
    graph, system = chain(3), system_for("u55-128")
    least = frontier(graph, system).points[-1].peak
    (fault,) = budget_faults(graph, system, [least + 1_000])
    assert fault == f"{least + 999:,} bytes are enough, and not just {least + 1_000:,}"


@pytest.mark.parametrize("order", [1, -1])
def test_more_memory_that_is_slower_is_a_fault(order: int) -> None:
    graph, system = chain(3), system_for("u55-128")
    budgets = [each.peak for each in reversed(frontier(graph, system).points)][::order]
    slower = [fault for fault in budget_faults(graph, system, budgets) if "slower" in fault]
    assert bool(slower) == (order < 0)
