"""What is aimed at for each network."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cascade.chains import chain
from benchmarks.cascade.loading import LoadedNetwork
from benchmarks.cascade.networks import BIG, FAST_ACCELERATOR, NETWORKS, MeasuredNetwork
from benchmarks.cascade.peaks import PlannedNetwork, frontier_table, peak_aims, peak_table, planned, run_table
from benchmarks.cascade.runs import MachineRun
from nnhal.resolved import ResolvedModel
from nnhal.types import Model, Subgraph
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
    assert frontier_table(found).row_count == len(found.recomputing)


def test_the_aims_are_below_what_others_reach() -> None:
    assert all(network.peak_aim < min(other.peak for other in network.published) for network in NETWORKS)
