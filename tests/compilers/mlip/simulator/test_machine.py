"""Programs that are made by hand compute what numpy computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.program.errors import ProgramError
from nnhal_mlip.program.program import (
    TaskKind,
    TaskRange,
    TaskWindow,
    TensorType,
    TileTask,
)
from nnhal_mlip.simulator.errors import SimulatorError
from nnhal_mlip.simulator.machine import TileMachine
from nnhal_mlip.simulator.provenance import check_provenance
from tests.support.mlip_by_hand import NUMBERS, HandMade, halved_convolution, one_task

RANDOM = np.random.default_rng(5)


def run(made: HandMade, *inputs: Array) -> Array:
    """The only output, from both orders that the queues allow at the extremes."""
    machine = TileMachine(made.program(), made.weights_bytes())
    data = np.frombuffer(b"".join(values.tobytes() for values in inputs), np.uint8)
    early, late = machine.run(data), machine.run(data, late=True)
    np.testing.assert_array_equal(early, late)
    (port,) = made.outputs
    result: Array = early.view(inputs[0].dtype).reshape(port.shape)
    return result


def reals(*shape: int) -> Array:
    return RANDOM.uniform(-1, 1, shape).astype(np.float16)


def bytes_of(*shape: int) -> Array:
    return RANDOM.integers(-128, 128, shape).astype(np.int8)


def convolved(image: Array, filters: Array, window: TaskWindow, rows: int, columns: int) -> Array:
    """The sums, element by element in float64."""
    top, left = window.padding[:2]
    result = np.zeros((len(image), rows, columns, len(filters)))
    for row, column, y, x in np.ndindex(rows, columns, *window.kernel):
        from_row = row * window.strides[0] + y * window.dilation[0] - top
        from_column = column * window.strides[1] + x * window.dilation[1] - left
        if 0 <= from_row < image.shape[1] and 0 <= from_column < image.shape[2]:
            seen = image[:, from_row, from_column].astype(np.float64)
            result[:, row, column] += seen @ filters[:, y, x].astype(np.float64).T
    return result


def half_away(values: Array) -> Array:
    rounded: Array = np.sign(values) * np.floor(np.abs(values) + 0.5)
    return rounded


@pytest.mark.parametrize(
    ("window", "rows", "columns"),
    [
        (TaskWindow(), 9, 8),
        (TaskWindow((3, 3), padding=(1, 1, 1, 1)), 9, 8),
        (TaskWindow((3, 2), (2, 3), padding=(1, 0, 0, 1)), 4, 3),
        (TaskWindow((3, 3), dilation=(2, 3), padding=(2, 3, 2, 3)), 9, 8),
        (TaskWindow((1, 1), (2, 2)), 5, 4),
        (TaskWindow((3, 3), padding=(-1, 1, -2, 1)), 4, 8),
    ],
)
def test_a_convolution_in_fp16_is_rounded_once(window: TaskWindow, rows: int, columns: int) -> None:
    image, filters, biases = reals(2, 9, 8, 5), reals(7, *window.kernel, 5), RANDOM.uniform(-1, 1, 7).astype(np.float32)
    numbers = replace(NUMBERS, window=window, range=TaskRange(0, 1.5))
    made = one_task(
        TaskKind.CONVOLUTION, image, output=(2, rows, columns, 7), task=numbers, weights=filters, biases=biases
    )
    expected = np.clip(convolved(image, filters, window, rows, columns) + biases, 0, 1.5)
    # The sums in float32 are within 1e-5; a fp16 of up to 2 has steps of 2 ** -10.
    np.testing.assert_allclose(run(made, image).astype(np.float64), expected, rtol=0, atol=2**-11 + 1e-5)


def test_a_convolution_in_int8_is_exact_however_long_its_sums() -> None:
    image, filters = np.full((1, 3, 3, 700), -128, np.int8), bytes_of(3, 3, 3, 700)
    image[0, 1, 1, 5] = 1
    biases = np.array([7, -2_000_000_011, 40], np.int32)
    factors = np.array([2e-5, 5e-8, 3e-5], np.float32)
    numbers = replace(NUMBERS, window=TaskWindow((3, 3), padding=(1, 1, 1, 1)))
    made = one_task(
        TaskKind.CONVOLUTION,
        image,
        output=(1, 3, 3, 3),
        task=numbers,
        weights=filters,
        biases=biases,
        factors=factors,
    )
    sums = convolved(image, filters, numbers.window, 3, 3)
    expected = np.clip(half_away((sums + biases) * factors.astype(np.float64)), -128, 127)
    np.testing.assert_array_equal(run(made, image), expected)
    assert len(np.unique(expected)) > 3


def test_int8_rounds_halves_away_from_zero() -> None:
    image = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 16, 1)
    made = one_task(
        TaskKind.CONVOLUTION,
        image,
        output=(1, 1, 16, 1),
        task=NUMBERS,
        weights=np.ones((1, 1, 1, 1), np.int8),
        factors=np.array([0.5], np.float32),
    )
    expected = [-4, -4, -3, -3, -2, -2, -1, -1, 0, 1, 1, 2, 2, 3, 3, 4]
    assert run(made, image).ravel().tolist() == expected


def test_an_int8_range_is_of_real_numbers() -> None:
    image = np.array([-100, -3, 50, 61, 127], np.int8).reshape(1, 1, 5, 1)
    numbers = replace(NUMBERS, range=TaskRange(0, 6), output_scale=0.1, input_factors=(1.0,))
    made = one_task(TaskKind.COPY, image, output=(1, 1, 5, 1), task=numbers)
    assert run(made, image).ravel().tolist() == [0, 0, 50, 60, 60]


def test_a_depthwise_convolution_keeps_channels_apart() -> None:
    image, filters = bytes_of(1, 7, 7, 6), bytes_of(1, 3, 3, 6)
    factors = np.full(6, 1e-3, np.float32)
    numbers = replace(NUMBERS, window=TaskWindow((3, 3), (2, 2), padding=(1, 1, 1, 1)))
    made = one_task(TaskKind.DEPTHWISE, image, output=(1, 4, 4, 6), task=numbers, weights=filters, factors=factors)
    full = np.zeros((6, 3, 3, 6), np.int8)
    for channel in range(6):
        full[channel, :, :, channel] = filters[0, :, :, channel]
    sums = convolved(image, full, numbers.window, 4, 4)
    np.testing.assert_array_equal(run(made, image), np.clip(half_away(sums * np.float64(factors[0])), -128, 127))


def test_a_maximum_does_not_see_the_padding() -> None:
    image = -np.abs(reals(1, 5, 5, 3)) - np.float16(1)
    numbers = replace(NUMBERS, window=TaskWindow((3, 3), (2, 2), padding=(1, 1, 1, 1)))
    made = one_task(TaskKind.MAX_POOL, image, output=(1, 3, 3, 3), task=numbers)
    expected = [
        [image[0, max(0, r - 1) : r + 2, max(0, c - 1) : c + 2].max((0, 1)) for c in (0, 2, 4)] for r in (0, 2, 4)
    ]
    np.testing.assert_array_equal(run(made, image)[0], expected)


@pytest.mark.parametrize("counts", [False, True])
def test_an_average_counts_the_padding_if_the_task_says_so(counts: bool) -> None:
    image = np.full((1, 4, 4, 2), 60, np.int8)
    window = TaskWindow((3, 3), padding=(1, 1, 1, 1), count_padding=counts)
    numbers = replace(NUMBERS, window=window, input_factors=(0.5,))
    made = one_task(TaskKind.AVERAGE_POOL, image, output=(1, 4, 4, 2), task=numbers)
    corner, inside = run(made, image)[0, 0, 0, 0], run(made, image)[0, 1, 1, 0]
    assert (corner, inside) == (13 if counts else 30, 30)


def test_a_sum_in_int8_has_a_factor_for_each_input() -> None:
    left, right = bytes_of(1, 4, 4, 4), bytes_of(1, 4, 4, 4)
    numbers = replace(NUMBERS, input_factors=(0.3, 0.7), range=TaskRange(0.0), output_scale=0.1)
    made = one_task(TaskKind.SUM, left, right, output=left.shape, task=numbers)
    expected = np.clip(half_away(left * 0.3 + right * 0.7), 0, 127)
    np.testing.assert_array_equal(run(made, left, right), expected)


def test_a_sum_in_fp16_may_overflow_to_infinity() -> None:
    values = np.full((1, 1, 1, 1), 40000, np.float16)
    made = one_task(TaskKind.SUM, values, values, output=values.shape, task=NUMBERS)
    assert run(made, values, values).ravel().tolist() == [np.inf]


def test_a_convolution_of_nothing_but_padding_is_its_bias() -> None:
    image, filters, biases = reals(1, 1, 1, 3), reals(2, 1, 1, 3), np.array([0.5, -2], np.float32)
    numbers = replace(NUMBERS, window=TaskWindow((1, 1), (2, 2), padding=(0, 1, 0, -1)))
    made = one_task(TaskKind.CONVOLUTION, image, output=(1, 1, 1, 2), task=numbers, weights=filters, biases=biases)
    check_provenance(made.program())
    assert run(made, image).ravel().tolist() == [0.5, -2]


def test_infinities_spread_as_in_ieee_arithmetic() -> None:
    image = np.array([np.inf, 1.0], np.float16).reshape(1, 1, 1, 2)
    filters = np.array([[0, 1], [1, 1], [-1, 0]], np.float16).reshape(3, 1, 1, 2)
    got = run(one_task(TaskKind.CONVOLUTION, image, output=(1, 1, 1, 3), task=NUMBERS, weights=filters), image)
    np.testing.assert_array_equal(got.ravel(), [np.nan, np.inf, -np.inf])


def test_a_copy_transposes_by_strides() -> None:
    image, made = reals(1, 3, 4, 5), HandMade(np.float16)
    view, result = made.input(image.shape), made.tensor((1, 5, 3, 4))
    strides = tuple(result.strides[axis] for axis in (0, 2, 3, 1))
    target = result._replace(shape=view.shape, strides=(strides[0], strides[1], strides[2], strides[3]))
    made.stage(TileTask(0, TaskKind.COPY, (view,), target))
    made.store(result)
    np.testing.assert_array_equal(run(made, image), image.transpose(0, 3, 1, 2))


def test_tiles_exchange_their_halos() -> None:
    image, filters = reals(1, 8, 6, 4), reals(4, 3, 3, 4)
    made = halved_convolution(image, filters)
    expected = convolved(image, filters, TaskWindow((3, 3), padding=(1, 1, 1, 1)), 8, 6)
    machine = TileMachine(made.program(), made.weights_bytes())
    got = machine.run(image.view(np.uint8).ravel()).view(np.float16).reshape(1, 8, 6, 4)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=2**-11, atol=2**-10)


def test_pinned_weights_are_loaded_once_and_stay() -> None:
    image, filters, made = reals(1, 2, 2, 4), reals(3, 1, 1, 4), HandMade(np.float16)
    weights = made.filters(filters)
    made.transfers[0] = replace(made.transfers[0], at_start=True)
    pinned = made.top
    view, result = made.input(image.shape), made.tensor((1, 2, 2, 3))
    made.stage(TileTask(0, TaskKind.CONVOLUTION, (view,), result, weights))
    made.store(result)
    program = replace(made.program(), pinned=True, ocm_weights_bytes=pinned, ocm_scratch_floor=pinned)
    machine = TileMachine(program, made.weights_bytes())
    first, second = (machine.run(image.view(np.uint8).ravel()) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    expected = image.astype(np.float32) @ filters[:, 0, 0].astype(np.float32).T
    np.testing.assert_allclose(first.view(np.float16).reshape(1, 2, 2, 3), expected, rtol=2e-3, atol=1e-3)


def test_a_run_can_be_ended_between_stages() -> None:
    image = reals(1, 8, 6, 4)
    made = halved_convolution(image, reals(4, 3, 3, 4))

    def late() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        TileMachine(made.program(), made.weights_bytes()).run(image.view(np.uint8).ravel(), late)


def test_a_program_is_checked_before_it_runs() -> None:
    image = bytes_of(1, 2, 2, 1)
    made = one_task(TaskKind.COPY, image, output=image.shape, task=replace(NUMBERS, input_factors=(1.0,)))
    with pytest.raises(ProgramError, match="tile of task 0 of stage 0"):
        bad = replace(made.stages[0], tasks=(replace(made.stages[0].tasks[0], tile=1),))
        TileMachine(replace(made.program(), stages=(bad,)), made.weights_bytes())


def test_an_output_that_is_not_stored_is_an_error() -> None:
    image = bytes_of(1, 2, 2, 1)
    made = one_task(TaskKind.COPY, image, output=image.shape, task=replace(NUMBERS, input_factors=(1.0,)))
    made.outputs.append(replace(made.outputs[0], name="other", offset=4))
    with pytest.raises(ProgramError, match="what is stored of the output other is 0 bytes, expected all 4"):
        run(made, image)


def test_wide_integers_are_not_computed_with() -> None:
    image = bytes_of(1, 2, 2, 4)
    made = one_task(TaskKind.COPY, image, output=image.shape, task=replace(NUMBERS, input_factors=(2.0,)))
    task = made.stages[0].tasks[0]
    wide = task.inputs[0]._replace(type=TensorType.INT32, shape=(1, 2, 2, 1))
    made.stages[0] = replace(made.stages[0], tasks=(replace(task, inputs=(wide,), output=wide._replace(address=512)),))
    with pytest.raises(ProgramError, match=r"the types of COPY in stage 0 \(layer_0\) is INT32"):
        run(made, image)


def test_factors_must_be_numbers() -> None:
    image = bytes_of(1, 2, 2, 1)
    made = one_task(
        TaskKind.CONVOLUTION,
        image,
        output=image.shape,
        task=NUMBERS,
        weights=bytes_of(1, 1, 1, 1),
        factors=np.array([np.nan], np.float32),
    )
    with pytest.raises(SimulatorError, match="a factor of CONVOLUTION"):
        run(made, image)
