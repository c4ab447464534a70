"""Figures of a loaded network on mlip."""

from __future__ import annotations

import pytest

from nnhal.operations.operand_types import F32
from nnhal.resolved import ResolvedModel
from nnhal_devices.driver import Control, DriverOptions, PrepareOptions, ShownWorkload
from nnhal_devices.figures import WorkloadFigures
from nnhal_devices.mlip.driver import Mlip
from nnhal_devices.mlip.figures import network_figures
from nnhal_devices.mlip.workload import SimulatedWorkload
from nnhal_mlip.model_compiler import ModelCompiler
from nnhal_mlip.options import read_options
from nnhal_mlip.program.program import OCM_BYTES
from tests.devices.mlip.test_driver import residual_network, separate_parts


def prepared(model: ResolvedModel, artifact: bytes = b"", **options: str) -> SimulatedWorkload:
    return Mlip(DriverOptions(extra=options)).prepare(model, PrepareOptions(artifact=artifact))


@pytest.fixture(scope="module")
def workload() -> SimulatedWorkload:
    return prepared(residual_network(F32))


@pytest.fixture(scope="module")
def shown(workload: SimulatedWorkload) -> WorkloadFigures:
    assert isinstance(workload, ShownWorkload)
    return workload.figures()


def test_memory_is_told_by_what_operations_compute(shown: WorkloadFigures) -> None:
    names = {span.name: span.kind for memory in shown.memories for span in memory.spans}
    assert names["input 0"] == "feature map"
    assert names["result of operation 0 (CONV_2D)"] == "feature map"
    assert names["weights of operation 1 (CONV_2D)"] == "weights"


def test_every_tile_that_holds_something_has_its_memory(shown: WorkloadFigures, workload: SimulatedWorkload) -> None:
    (simulator,) = workload.simulators
    named = [memory.name.removeprefix("OCM of tile").removeprefix("s").split(", ") for memory in shown.memories]
    tiles = sorted(int(tile) for each in named for tile in each)
    assert tiles == list(range(simulator.program.tiles))
    assert {memory.limit_bytes for memory in shown.memories} == {OCM_BYTES}
    for memory in shown.memories:
        for span in memory.spans:
            assert 0 <= span.address < span.address + span.bytes <= OCM_BYTES
            assert 0 <= span.begin < span.end <= simulator.timeline.total


def test_spans_of_a_lane_follow_one_another(shown: WorkloadFigures, workload: SimulatedWorkload) -> None:
    (time,) = shown.times
    (simulator,) = workload.simulators
    assert time.lanes == (*(f"tile {tile}" for tile in range(simulator.program.tiles)), "DMA")
    for lane in range(len(time.lanes)):
        now = 0.0
        for span in sorted((each for each in time.spans if each.lane == lane), key=lambda each: each.begin):
            assert now <= span.begin < span.end <= simulator.timeline.total
            now = span.end
    assert {span.kind for span in time.spans} == {"compute", "copy", "wait"}
    assert {span.kind for span in time.spans if span.lane == len(time.lanes) - 1} == {"copy"}


def test_a_tile_is_always_told_until_its_last_stage_ends(shown: WorkloadFigures, workload: SimulatedWorkload) -> None:
    (simulator,) = workload.simulators
    told = sum(span.end - span.begin for span in shown.times[0].spans if span.lane == 0)
    assert told == simulator.timeline.stages[-1].end


def test_binaries_follow_one_another(workload: SimulatedWorkload, shown: WorkloadFigures) -> None:
    (simulator,) = workload.simulators
    (step,) = ModelCompiler(read_options({})).compile(residual_network(F32)).steps
    twice = network_figures((simulator, simulator), (step.memory, step.memory))
    total = simulator.timeline.total
    for once, both in zip(shown.memories, twice.memories, strict=True):
        later = [(span.name, span.begin + total) for span in once.spans]
        assert [(span.name, span.begin) for span in both.spans[len(once.spans) :]] == later
    assert max(span.end for span in twice.times[0].spans) == 2 * total


def test_what_comes_from_a_cache_is_shown_as_well(workload: SimulatedWorkload, shown: WorkloadFigures) -> None:
    again = prepared(residual_network(F32), workload.artifact())
    assert again.figures() == shown


def test_operations_take_the_cycles_of_the_tile_that_is_last(
    shown: WorkloadFigures, workload: SimulatedWorkload
) -> None:
    told = workload.operation_times(Control())
    assert (told.unit, told.is_modelled) == ("cycles", True)
    assert ("operation 0 (CONV_2D)", (0,)) in [(each.name, each.operations) for each in told.times]
    for each in told.times:
        by_tile: dict[int, float] = {}
        for span in shown.times[0].spans:
            if span.kind == "compute" and span.name == each.name:
                by_tile[span.lane] = by_tile.get(span.lane, 0.0) + span.end - span.begin
        assert each.duration == max(by_tile.values(), default=0.0)
    numbers = sorted(number for each in told.times for number in each.operations)
    assert numbers == list(range(len(residual_network(F32).model.main.operations)))


def test_pinned_weights_are_there_all_the_time() -> None:
    loaded = prepared(residual_network(F32), wb_pin_ocm="true")
    total = sum(simulator.timeline.total for simulator in loaded.simulators)
    pinned = [span for span in loaded.figures().memories[0].spans if span.kind == "pinned weights"]
    assert pinned
    assert {(span.begin, span.end) for span in pinned} == {(0, total)}


def test_a_model_that_computes_nothing_shows_nothing() -> None:
    assert network_figures((), ()) == WorkloadFigures()


def test_a_model_of_several_parts_is_shown_as_a_whole() -> None:
    loaded = prepared(separate_parts(F32))
    names = {span.name for span in loaded.figures().times[0].spans}
    assert {"operation 0 (RELU)", "operation 2 (CONV_2D)", "operation 3 (CONV_2D)"} <= names
