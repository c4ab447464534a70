"""Items that are pointed at: an operation that takes ten times its share."""

from __future__ import annotations

from nnhal_tools.bench.model import (
    OperationTime,
    StepTime,
    Times,
    doubtful_nodes,
    doubtful_steps,
    slow_nodes,
    slow_on_devices,
    slow_outside,
    slow_steps,
)
from nnhal_tools.bench.on_devices import ReportedTime


def _step(number: int, operation: str, taken: float, due: float) -> StepTime:
    return StepTime(number, f"npu{number}", (operation,), taken, False, due)


def test_a_step_that_takes_ten_times_its_share_is_named() -> None:
    (found,) = slow_steps([_step(0, "CONV_2D", 100, 1000), _step(1, "SOFTMAX", 900, 10)])
    assert found == (
        "step 1, SOFTMAX on npu1, takes 90% of the time on devices, and by the cost models 1.0%: 91 times its share"
    )


def test_steps_within_ten_times_their_shares_are_not() -> None:
    assert slow_steps([_step(0, "CONV_2D", 100, 100), _step(1, "SOFTMAX", 900, 100)]) == []


def test_what_is_little_of_the_whole_is_not() -> None:
    assert slow_steps([_step(0, "CONV_2D", 950, 10_000), _step(1, "SOFTMAX", 50, 1)]) == []


def test_a_step_that_was_never_run_and_one_of_unknown_cost_do_not_count() -> None:
    assert slow_steps([_step(0, "CONV_2D", -1, 10), _step(1, "SOFTMAX", 900, -1)]) == []
    assert slow_steps([]) == []


def _operation(nodes: tuple[str, ...], kind: str, duration_ns: float, step: int = 0) -> OperationTime:
    return OperationTime(nodes, kind, step, "cpu_acc" if step >= 0 else "ort", duration_ns)


def test_a_node_of_the_runtime_is_found_by_its_name_in_the_file() -> None:
    plan = [_operation(("conv", "relu"), "CONV_2D", 1000), _operation(("top",), "SOFTMAX", 10)]
    nodes = [
        _operation(("relu_nchwc",), "Conv", 100, -1),
        _operation(("top",), "Softmax", 500, -1),
        _operation(("ReorderOutput",), "ReorderOutput", 9000, -1),
    ]
    (found,) = slow_nodes(plan, nodes)
    assert found.startswith("SOFTMAX top takes 83% of the time in ONNX Runtime, and by the cost models 1.0%: ")


def test_an_operation_that_a_device_tells_of_is_named() -> None:
    plan = [_operation(("conv",), "CONV_2D", 1000), _operation(("top",), "SOFTMAX", 10)]
    told = [
        ReportedTime("conv", (0,), 0, "cpu_acc", False, 100),
        ReportedTime("top", (1,), 0, "cpu_acc", False, 400),
        ReportedTime("top again", (1,), 0, "cpu_acc", False, 100),
        ReportedTime("ReorderOutput", (), 0, "cpu_acc", False, 9000),
    ]
    (found,) = slow_on_devices(plan, told)
    assert found == (
        "SOFTMAX top takes 83% of the time of the operations on cpu_acc, and by its cost model 1.0%: 84 times its share"
    )


def test_an_operation_that_is_due_much_is_found_by_what_the_others_take() -> None:
    plan = [_operation(("conv",), "CONV_2D", 100), _operation(("top",), "SOFTMAX", 100)]
    told = [ReportedTime("conv", (0,), 0, "npu", True, 10), ReportedTime("top", (1,), 0, "npu", True, 110)]
    (found,) = slow_on_devices(plan, told)
    assert found.endswith(
        "takes 92% of the time of the operations on npu, and by its cost model 50.0%: 11 times as "
        "long beside the others"
    )
    assert slow_on_devices(plan, [told[0], ReportedTime("top", (1,), 0, "npu", True, 90)]) == []


def test_operations_that_a_device_runs_as_one_are_named_together() -> None:
    plan = [_operation(("conv",), "CONV_2D", 10), _operation((), "RELU", 1), _operation(("top",), "SOFTMAX", 1000)]
    told = [ReportedTime("conv", (0, 1), 0, "gpu", True, 500), ReportedTime("top", (2,), 0, "gpu", True, 500)]
    (found,) = slow_on_devices(plan, told)
    assert found.startswith("CONV_2D conv and RELU takes 50% of the time")


def test_a_step_that_takes_longer_than_its_operations_is_named() -> None:
    told = [ReportedTime("conv", (0,), 0, "npu", False, 1e5), ReportedTime("top", (1,), 1, "npu", False, 1e4)]
    (found,) = slow_outside([_step(0, "CONV_2D", 2e6, 1), _step(1, "SOFTMAX", 1e6, 1)], told)
    assert found.startswith("step 0 takes 20 times as long on ")


def _run(p50_ns: float) -> Times:
    return Times(p50_ns, p50_ns, p50_ns, p50_ns)


def _told(step: int, duration_ns: float, is_modelled: bool = False) -> ReportedTime:
    return ReportedTime("conv", (0,), step, "npu", is_modelled, duration_ns)


def test_operations_that_take_longer_than_their_step_are_doubted() -> None:
    steps = [_step(0, "CONV_2D", 0.4e6, 1), _step(1, "SOFTMAX", 0.1e6, 1)]
    found = doubtful_steps(_run(0.59e6), steps, [_told(0, 6e6), _told(0, 5.96e6), _told(1, 0.1e6)])
    assert list(found) == [0]
    assert found[0] == (
        "the operations of step 0, measured by themselves on npu0, add up to 11.96 ms, more than the step takes, "
        "400.0 µs: these times are unreliable, and nothing is concluded from them"
    )


def test_steps_that_take_longer_than_a_run_are_doubted() -> None:
    found = doubtful_steps(_run(0.59e6), [_step(0, "CONV_2D", 6e6, 1), _step(1, "SOFTMAX", 5.96e6, 1)], [])
    assert list(found) == [0, 1]
    assert found[0] == found[1]
    assert "add up to 11.96 ms, more than a run takes, 590.0 µs: " in found[0]


def test_what_can_be_and_what_is_modelled_is_not_doubted() -> None:
    steps = [_step(0, "CONV_2D", 0.4e6, 1)]
    assert doubtful_steps(_run(0.5e6), steps, [_told(0, 0.45e6), _told(0, 9e6, is_modelled=True)]) == {}
    assert doubtful_steps(_run(0.5e6), [StepTime(0, "npu", ("CONV_2D",), 9e6, True, 1)], []) == {}
    assert doubtful_steps(_run(0.5e6), [_step(0, "CONV_2D", -1, 1)], []) == {}


def test_a_profile_that_adds_up_to_more_than_a_run_is_doubted() -> None:
    nodes = [_operation(("conv",), "Conv", 7e6, -1), _operation(("top",), "Softmax", 4.96e6, -1)]
    assert doubtful_nodes(_run(0.59e6), nodes).startswith("ort: the profiled nodes add up to 11.96 ms, more than a run")
    assert doubtful_nodes(_run(12e6), nodes) == ""
