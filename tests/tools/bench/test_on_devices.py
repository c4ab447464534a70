"""What devices tell of the time inside a step, by the operations of the plan."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nnhal.v1.admin_pb2 import TimeFigure, TimeSpan, WorkloadFigures
from nnhal_client.explanation import Explanation, OperationStory, StepStory
from nnhal_tools.bench.on_devices import ToldTime, times_of


def _explanation() -> Explanation:
    operations = (
        OperationStory(("image",), "TRANSPOSE", "cpu_ref", 0, 1.0, {}),
        OperationStory(("conv", "relu"), "CONV_2D", "npu", 1, 1.0, {}, outputs=("a",)),
        OperationStory(("top",), "SOFTMAX", "npu", 1, 1.0, {}, outputs=("b",)),
    )
    steps = (StepStory("cpu_ref", 1, 1.0, ()), StepStory("npu", 2, 1.0, ()))
    return Explanation(operations, steps, (), (), 0.0, (), 0, 0, 0, 0)


def _figures(unit: str, spans: Sequence[TimeSpan]) -> WorkloadFigures:
    return WorkloadFigures(times=[TimeFigure(name="time", unit=unit, spans=spans, lanes=["one", "two"])])


def _span(name: str, begin: float, end: float, lane: int = 0, kind: str = "compute") -> TimeSpan:
    return TimeSpan(name=name, begin=begin, end=end, lane=lane, kind=kind)


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("operation 0 (CONV_2D)", 1),
        ("operation 1 (SOFTMAX) 7_token_3", 2),
        ("relu_nchwc", 1),
        ("b (SOFTMAX)", 2),
        ("top", 2),
        ("operation 0 (SOFTMAX)", -1),
        ("operation 2 (SOFTMAX)", -1),
        ("ReorderOutput", -1),
        ("image", -1),
    ],
)
def test_an_operation_is_found_by_what_its_device_calls_it(name: str, operation: int) -> None:
    figures = _figures("ns", [_span(name, 10, 40)])
    assert times_of(figures, _explanation(), 1, -1) == [ToldTime(name, operation, 1, "npu", False, 30)]


def test_cycles_are_parts_of_the_time_of_the_step() -> None:
    spans = [_span("a: rows 0 to 7", 0, 100), _span("a: rows 8 to 9", 100, 150), _span("top", 150, 200)]
    told = times_of(_figures("cycles", [*spans, _span("a waits", 0, 9, kind="wait")]), _explanation(), 1, 1000)
    assert told == [ToldTime("a", 1, 1, "npu", True, 750), ToldTime("top", 2, 1, "npu", True, 250)]


def test_units_side_by_side_count_as_long_as_the_longest() -> None:
    spans = [_span("top", 0, 60), _span("top", 0, 40, lane=1), _span("top", 40, 100, lane=1)]
    assert times_of(_figures("cycles", spans), _explanation(), 1, 100) == [ToldTime("top", 2, 1, "npu", True, 100)]


def test_cycles_of_a_step_whose_time_is_not_known_are_not_told() -> None:
    assert times_of(_figures("cycles", [_span("top", 0, 60)]), _explanation(), 1, -1) == []
    assert times_of(WorkloadFigures(), _explanation(), 1, 1000) == []
