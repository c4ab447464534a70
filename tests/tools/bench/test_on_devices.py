"""Times inside a step, as devices report them, by the operations of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nnhal.v1.admin_pb2 import MeasureOperationsResponse, OperationTime
from nnhal_client.explanation import Explanation, OperationStory, StepStory
from nnhal_tools.bench.on_devices import ReportedTime, times_of


def _explanation() -> Explanation:
    operations = (
        OperationStory(("image",), "TRANSPOSE", "cpu_ref", 0, 1.0, {}),
        OperationStory(("conv", "relu"), "CONV_2D", "npu", 1, 1.0, {}, outputs=("a",)),
        OperationStory(("top",), "SOFTMAX", "npu", 1, 1.0, {}, outputs=("b",)),
    )
    steps = (StepStory("cpu_ref", 1, 1.0, ()), StepStory("npu", 2, 1.0, ()))
    return Explanation(operations, steps, (), (), 0.0, (), 0, 0, 0, 0)


def _told(*times: tuple[str, Sequence[int], float], count: int = 2, **values: Any) -> MeasureOperationsResponse:
    found = [OperationTime(name=name, operations=numbers, duration=duration) for name, numbers, duration in times]
    return MeasureOperationsResponse(times=found, operation_count=count, **values)


@pytest.mark.parametrize(
    ("name", "numbers", "operations"),
    [
        ("operation 0 (CONV_2D)", [0], (1,)),
        ("operation 1 (SOFTMAX) 7", [1], (2,)),
        ("operation 0 (CONV_2D) 2", [0, 1], (1, 2)),
        ("relu", [0], (1,)),
        ("b", [1], (2,)),
        ("top", [0], (2,)),
        ("ReorderOutput", [], ()),
        ("beyond the step", [2, -1], ()),
        ("image", [], ()),
    ],
)
def test_an_operation_is_found_by_its_number_or_what_its_device_calls_it(
    name: str, numbers: Sequence[int], operations: tuple[int, ...]
) -> None:
    told = _told((name, numbers, 30))
    assert times_of(told, _explanation(), 1, -1) == [ReportedTime(name, operations, 1, "npu", False, 30)]


def test_nodes_of_a_step_that_is_one_operation_on_its_device_are_found_by_name_only() -> None:
    told = _told(("top", [0], 20), ("fused", [0], 10), count=1)
    assert [each.operations for each in times_of(told, _explanation(), 1, 1000)] == [(2,), ()]


def test_modelled_times_add_up_to_the_time_of_the_step() -> None:
    told = _told(("a", [0], 150), ("top", [1], 50), unit="cycles", is_modelled=True)
    assert times_of(told, _explanation(), 1, 1000) == [
        ReportedTime("a", (1,), 1, "npu", True, 750),
        ReportedTime("top", (2,), 1, "npu", True, 250),
    ]


def test_cycles_of_a_step_whose_time_is_not_known_are_not_told() -> None:
    assert times_of(_told(("top", [1], 60), unit="cycles", is_modelled=True), _explanation(), 1, -1) == []
    assert times_of(_told(), _explanation(), 1, 1000) == []
