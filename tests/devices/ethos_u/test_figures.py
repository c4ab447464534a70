"""Figures of a compiled network on ethos_u."""

from __future__ import annotations

import pytest

from nnhal.operations.operand_types import Q8A
from nnhal_devices.driver import DriverOptions, PrepareOptions, ShownWorkload
from nnhal_devices.ethos_u.driver import EthosU
from nnhal_devices.ethos_u.figures import schedule_figures, schedule_times
from nnhal_devices.figures import RESERVED, MemorySpan, WorkloadFigures
from tests.support.cascades import PEAK, SIDE, schedule
from tests.support.ethos_u import examples

BUDGET = 4096


@pytest.fixture(scope="module")
def shown() -> WorkloadFigures:
    return schedule_figures(schedule(), BUDGET)


def test_values_lie_within_what_is_reserved_for_them(shown: WorkloadFigures) -> None:
    (memory,) = shown.memories
    assert (memory.name, memory.limit_bytes, memory.unit) == ("SRAM", BUDGET, "cycles")
    reserved = {span.name: span for span in memory.spans if span.kind == RESERVED}
    assert list(reserved) == ["image", "a", "b", "c", "d"]
    held = [span for span in memory.spans if span.name in reserved and span.kind != RESERVED]
    assert len(held) > len(reserved)
    for span in held:
        whole = reserved[span.name]
        assert whole.address <= span.address
        assert span.address + span.bytes <= whole.address + whole.bytes
        assert whole.begin <= span.begin < span.end <= whole.end


def test_rolling_buffers_and_weights_are_told_apart(shown: WorkloadFigures) -> None:
    spans = shown.memories[0].spans
    kinds = {span.name: span.kind for span in spans if span.kind != RESERVED}
    assert kinds == {
        "image": "feature map",
        "a": "rolling buffer",
        "b": "rolling buffer",
        "c": "feature map",
        "d": "feature map",
        "weights of a (CONV_2D)": "weights",
        "weights of d (CONV_2D)": "weights",
    }
    assert max(span.address + span.bytes for span in spans) == PEAK
    weights = next(span for span in spans if span.name == "weights of d (CONV_2D)")
    assert isinstance(weights, MemorySpan)
    assert weights.bytes == 2 * 8 * 18


def test_each_part_has_a_lane_of_stripes_and_the_copies_have_one(shown: WorkloadFigures) -> None:
    (time,) = shown.times
    assert time.lanes == ("a (CONV_2D)", "b (DEPTHWISE_CONV_2D)", "c (ADD)", "d (CONV_2D)", "DMA")
    computed = [span for span in time.spans if span.kind == "compute"]
    assert [sum(span.lane == lane for span in computed) for lane in range(4)] == [SIDE, SIDE, SIDE, 2]
    assert computed[0].name == "a (CONV_2D): rows 0 to 0"
    assert computed[-1].name == "d (CONV_2D): channels 8 to 15"
    assert {span.name for span in time.spans if span.lane == 4} == {
        "constants of a (CONV_2D)",
        "constants of d (CONV_2D)",
    }
    assert max(span.end for span in time.spans) == schedule().cycles


def test_a_part_that_waits_for_its_constants_says_so(shown: WorkloadFigures) -> None:
    wait = next(span for span in shown.times[0].spans if span.kind == "wait")
    copy = next(span for span in shown.times[0].spans if span.kind == "copy")
    assert (wait.lane, wait.name) == (0, "a (CONV_2D) waits for its constants")
    assert (wait.begin, wait.end) == (copy.begin, copy.end)


def test_operations_take_the_cycles_of_their_stripes(shown: WorkloadFigures) -> None:
    told = schedule_times(schedule())
    assert (told.unit, told.is_modelled) == ("cycles", True)
    assert [each.name for each in told.times] == list(shown.times[0].lanes[:-1])
    assert [each.operations for each in told.times] == [part.operations for part in schedule().graph.parts]
    for lane, each in enumerate(told.times):
        spans = [span for span in shown.times[0].spans if span.lane == lane and span.kind == "compute"]
        assert each.duration == sum(span.end - span.begin for span in spans) > 0


def test_a_prepared_model_without_names_is_shown_by_its_operations() -> None:
    driver = EthosU(DriverOptions(extra={"sram": "8KiB"}))
    workload = driver.prepare(examples(Q8A)["CONV_2D SAME"], PrepareOptions())
    assert isinstance(workload, ShownWorkload)
    figures = workload.figures()
    assert figures.memories[0].limit_bytes == 8 << 10
    assert {"input 0", "operation 0"} <= {span.name for span in figures.memories[0].spans}
    assert figures.times[0].lanes == ("operation 0 (CONV_2D)", "DMA")
