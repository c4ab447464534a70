from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations.operand_types import F16, F32, I32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import ErrorStatus, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.workload import Forecast
from nnhal_devices.driver import (
    DONE,
    Argument,
    Control,
    DriverOptions,
    Outcome,
    PrepareOptions,
    ResizableWorkload,
    Workload,
)
from nnhal_devices.host.sessions.models import resolve
from nnhal_frontends.onnx import import_onnx
from tests.support.agreement import like, random
from tests.support.endless import endless_model
from tests.support.models import Recipe, memory_of
from tests.support.onnx_models import onnx_model, resolved
from tests.support.refusals import FAILURE, refusal
from tests.support.waiting import wait_until


def prepared(model: ResolvedModel) -> Workload:
    return CpuAcc(DriverOptions()).prepare(model, PrepareOptions())


def _doubling(code: OperandType, dimensions: Dimensions) -> ResolvedModel:
    recipe = Recipe()
    given = recipe.input(code, dimensions, like(code).scale, like(code).zero_point)
    return recipe.build(recipe.operation(OperationType.ADD, [given, given, *recipe.integers(0)], like(code)))


def _floats(*values: float) -> Array:
    return np.array(values, np.float32)


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
def test_runs_read_and_write_the_memory_that_was_bound(code: OperandType) -> None:
    element, zero = ELEMENT_TYPES[code], like(code).zero_point
    given, result = np.full(3, zero + 1, element), np.zeros(3, element)
    bound = prepared(_doubling(code, (3,))).bind(
        [Argument(given.view(np.uint8), (3,))], [Argument(result.view(np.uint8), (3,))]
    )
    assert bound.run(Control()) is DONE
    np.testing.assert_array_equal(result, np.full(3, zero + 2, element))
    given[:] = zero + 2
    result[:] = 0
    bound.run(Control())
    np.testing.assert_array_equal(result, np.full(3, zero + 4, element))


def test_bytes_after_an_output_are_left_alone() -> None:
    memory = np.full(16, 0xAA, np.uint8)
    prepared(_doubling(F32, (2,))).bind([memory_of(_floats(1, 2))], [Argument(memory, (2,))]).run(Control())
    np.testing.assert_array_equal(memory[:8].view(np.float32), [2, 4])
    assert set(memory[8:]) == {0xAA}


def test_open_dimensions_are_reported_once_the_inputs_are_known() -> None:
    workload = prepared(_doubling(F32, (0, 2)))
    for batch in (1, 3):
        memory = np.zeros(64, np.uint8)
        bound = workload.bind([memory_of(np.ones((batch, 2), np.float32))], [Argument(memory, (0, 2))])
        assert bound.run(Control()) == Outcome(((batch, 2),))
        assert memory.view(np.float32).sum() == 4 * batch


def test_an_output_that_is_too_large_for_its_memory_is_not_written_and_others_are() -> None:
    recipe = Recipe()
    given = recipe.input(F32, (0,))
    doubled = recipe.operation(OperationType.ADD, [given, given, *recipe.integers(0)], like(F32))
    largest = recipe.operation(
        OperationType.MEAN, [given, recipe.constant(OperandType.TENSOR_INT32, [0]), *recipe.integers(1)], like(F32)
    )
    small, enough = np.zeros(4, np.uint8), np.zeros(4, np.uint8)
    bound = prepared(recipe.build(doubled, largest)).bind(
        [memory_of(_floats(1, 2, 3))], [Argument(small, (0,)), Argument(enough, (1,))]
    )
    assert bound.run(Control()) == Outcome(((3,), (1,)))
    assert not small.any()
    assert enough.view(np.float32) == 2


def test_omitted_outputs_are_not_computed_for_anyone() -> None:
    bound = prepared(_doubling(F32, (2,))).bind([memory_of(_floats(1, 2))], [Argument(None, (2,))])
    assert bound.run(Control()) is DONE


def test_an_input_that_an_operation_reads_must_not_be_omitted() -> None:
    with pytest.raises(HalError, match="input0 is omitted") as caught:
        prepared(_doubling(F32, (2,))).bind([Argument(None, (2,))], [Argument(np.zeros(8, np.uint8), (2,))])
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_an_input_that_nothing_reads_may_be_omitted() -> None:
    recipe = Recipe()
    recipe.input(F32, (5,))
    given = recipe.input(F32, (2,))
    model = recipe.build(recipe.operation(OperationType.RELU, [given], like(F32)))
    memory = np.zeros(8, np.uint8)
    bound = prepared(model).bind([Argument(None, (5,)), memory_of(_floats(-1, 2))], [Argument(memory, (2,))])
    bound.run(Control())
    np.testing.assert_array_equal(memory.view(np.float32), [0, 2])


def test_tensors_of_no_elements_need_no_computation() -> None:
    workload = prepared(_doubling(F32, (0, 2)))
    bound = workload.bind([memory_of(np.zeros((0, 2), np.float32))], [Argument(np.zeros(8, np.uint8), (0, 2))])
    assert bound.run(Control()).dimensions == ((0, 2),)


def test_inputs_that_do_not_fit_one_another_are_refused() -> None:
    recipe = Recipe()
    inputs = [recipe.input(F32, (0,)) for _ in range(2)]
    model = recipe.build(recipe.operation(OperationType.MUL, [*inputs, *recipe.integers(0)], like(F32)))
    arguments = [memory_of(_floats(1, 2)), memory_of(_floats(1, 2, 3))]
    workload = prepared(model)
    refusal(lambda: workload.bind(arguments, [Argument(np.zeros(16, np.uint8), (0,))]), FAILURE, "do not broadcast")


def test_a_value_between_operations_with_other_dimensions_than_declared_is_a_failure() -> None:
    recipe = Recipe()
    given = recipe.input(F32, (0,))
    between = recipe.operation(OperationType.RELU, [given], like(F32, (2,)))
    model = recipe.build(
        recipe.operation(OperationType.MEAN, [between, recipe.constant(I32, [0]), *recipe.integers(1)], like(F32, (1,)))
    )
    workload, output = prepared(model), [Argument(np.zeros(4, np.uint8), (1,))]
    workload.bind([memory_of(_floats(1, 2))], output).run(Control())
    words = r"operation 0 \(RELU\): operand 1 has dimensions \[3\], the model says \[2\]"
    refusal(lambda: workload.bind([memory_of(_floats(1, 2, 3))], output), FAILURE, words)


class Found:
    """The indices of what is not 0 among six values, in memory for so many of them."""

    def __init__(self, room: int = 6, table: Sequence[int] = ()) -> None:
        """If there is a table, what it has at these indices."""
        nodes = [helper.make_node("NonZero", ["x"], ["found"]), helper.make_node("Gather", ["table", "found"], ["y"])]
        tables = {"table": np.array(table, np.int64)} if table else {}
        model = onnx_model(nodes if table else nodes[:1], {"x": [6]}, ["y" if table else "found"], tables)
        self.memory = np.full(room, -1, np.int64)
        self._given = np.zeros(6, np.float32)
        self._bound = prepared(resolved(import_onnx(model).model)).bind(
            [Argument(self._given.view(np.uint8), (6,))], [Argument(self.memory.view(np.uint8), (1, 0))]
        )

    def run(self, *values: float) -> Outcome:
        self._given[:] = values
        return self._bound.run(Control())

    def output(self, *values: float) -> Array:
        """Run it, and return a copy of the output in the dimensions that are reported."""
        (dimensions,) = self.run(*values).dimensions
        return self.memory[: int(np.prod(dimensions))].reshape(dimensions).copy()


def test_outputs_whose_dimensions_depend_on_data_are_right_whether_these_change_or_not() -> None:
    found, generator = Found(), np.random.default_rng(5)
    for count in [3] * 20 + [2, 2, 0] + [4] * 40 + [6, 1]:
        values = generator.permutation(6) < count
        np.testing.assert_array_equal(found.output(*values), np.stack(np.nonzero(values)))


def test_bytes_after_an_output_of_unknown_size_are_left_alone() -> None:
    found = Found()
    for _ in range(30):
        found.run(0, 0, 1, 0, 1, 0)
        assert found.memory.tolist() == [2, 4, -1, -1, -1, -1]


def test_an_output_that_comes_to_need_more_memory_than_it_has_is_reported_and_not_written() -> None:
    found = Found(room=2)
    for _ in range(20):
        assert found.output(1, 1, 0, 0, 0, 0).tolist() == [[0, 1]]
    for _ in range(20):
        assert found.run(1, 1, 1, 1, 1, 1) == Outcome(((1, 6),))
        assert found.memory.tolist() == [0, 1]


def test_a_failure_after_runs_with_the_same_dimensions_has_its_own_words_and_harms_no_later_run() -> None:
    found = Found(table=[7, 8, 9])
    before = refusal(lambda: found.run(0, 0, 0, 0, 0, 1), FAILURE, "out of")
    for _ in range(20):
        assert found.output(0, 0, 1, 0, 0, 0).tolist() == [[9]]
    after = refusal(lambda: found.run(0, 0, 0, 0, 0, 1), FAILURE)
    assert after.message == before.message
    assert found.output(0, 1, 0, 0, 0, 0).tolist() == [[8]]


def test_an_output_may_lie_where_an_input_does_when_another_has_an_unknown_size() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("NonZero", ["y"], ["found"])]
    workload = prepared(resolved(import_onnx(onnx_model(nodes, {"x": [4]}, ["y", "found"])).model))
    x, indices = np.zeros(4, np.float32), np.zeros(4, np.int64)
    memory = Argument(x.view(np.uint8), (4,))
    bound = workload.bind([memory], [memory, Argument(indices.view(np.uint8), (1, 0))])
    for values in [(0, 1, 2, 0)] * 20 + [(5, 6, 7, 0)]:
        x[:] = values
        assert bound.run(Control()) == Outcome(((4,), (1, len(values) - values.count(0))))
        np.testing.assert_array_equal(x, np.negative(values))


def test_a_run_of_other_lengths_never_writes_what_it_reads() -> None:
    model = onnx_model(
        [helper.make_node("Concat", ["before", "x"], ["after"], axis=0)], {"before": ["n"], "x": [1]}, ["after"]
    )
    workload = prepared(resolved(import_onnx(model, as_one=True).model))
    memory, x = np.zeros(12, np.float32), _floats(9)
    before, after = memory[:8].view(np.uint8), memory[4:].view(np.uint8)  # which overlap from 5 values on
    bound = workload.bind([Argument(before[:4], (1,)), memory_of(x)], [Argument(after, (0,))])
    assert isinstance(bound, ResizableWorkload)
    for length in (1, 2, 3, 0, 4, 5, 7, 2, 6, 6):
        bound.resize([(length,), (1,)])
        memory[:length] = given = np.arange(length, dtype=np.float32)
        assert bound.run(Control()) == Outcome(((length + 1,),))
        assert memory[4 : 5 + length].tolist() == [*given.tolist(), 9]


def test_a_deadline_that_has_passed_ends_the_run() -> None:
    bound = prepared(_doubling(F32, (1,))).bind([memory_of(_floats(1))], [Argument(np.zeros(4, np.uint8), (1,))])
    with pytest.raises(HalError) as caught:
        bound.run(Control(deadline_ns=1))
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT


def test_bindings_of_one_workload_run_side_by_side() -> None:
    workload = prepared(_doubling(F32, (1000,)))
    values = [random(F32, (1000,), seed) for seed in range(4)]
    results = [np.zeros(1000, np.float32) for _ in values]

    def run(given: Array, result: Array) -> None:
        bound = workload.bind([memory_of(given)], [Argument(result.view(np.uint8), (1000,))])
        for _ in range(50):
            bound.run(Control())

    threads = [threading.Thread(target=run, args=pair) for pair in zip(values, results, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(results, np.multiply(values, 2))


def test_a_run_that_is_stopped_says_why_and_harms_no_later_run() -> None:
    model, result = endless_model(), np.zeros(1, np.float32)
    workload = prepared(resolve(model))
    bound = workload.bind([memory_of(_floats(1.0))], [memory_of(result)])
    for reason in ("somebody wants it", "somebody else wants it"):
        control = Control()
        ending = threading.Thread(target=_end, args=(control, reason))
        ending.start()
        with pytest.raises(HalError, match=reason):
            bound.run(control)
        ending.join()
        control.interrupt()  # too late: the run has ended
    with pytest.raises(HalError, match="the deadline passed"):
        bound.run(Control(deadline_ns=1))


def _end(control: Control, reason: str) -> None:
    wait_until(lambda: control.stop is not None, "the run has begun")
    control.cancel(reason)
    control.interrupt()


def test_a_cache_that_is_one_longer_is_forecast_after_two_lengths() -> None:
    forecast = Forecast()
    assert forecast.of([(1, 2), (1, 0, 8)]) is None
    forecast.note([(1, 2), (1, 0, 8)], [(1, 1, 8), (5,)])
    assert forecast.of([(1, 2), (1, 1, 8)]) is None
    forecast.note([(1, 2), (1, 3, 8)], [(1, 4, 8), (5,)])
    assert forecast.of([(1, 2), (1, 40, 8)]) == ((1, 41, 8), (5,))


def test_lengths_that_depend_on_values_are_not_forecast() -> None:
    forecast = Forecast()
    for length, found in ((1, 7), (2, 3), (3, 3)):
        forecast.note([(length,)], [(found,)])
        assert forecast.of([(length,)]) is None


def test_a_forecast_that_was_wrong_is_corrected_by_what_came() -> None:
    forecast = Forecast()
    forecast.note([(1,), (2,)], [(2,)])
    forecast.note([(1,), (2,), (9,)], [(2,)])
    assert forecast.of([(5,), (7,), (9,)]) == ((2,),)
    forecast.note([(5,), (7,), (9,)], [(7,)])
    assert forecast.of([(5,), (8,), (9,)]) == ((8,),)
