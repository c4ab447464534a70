from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, absent, boolean, integers, output, tensor

BATCH, INPUT, UNITS, TIME = 2, 3, 4, 5
RELU = 1
_RNG = np.random.default_rng(4)


def values(*shape: int) -> Array:
    """Return random values that float16 represents exactly."""
    return np.round(_RNG.normal(0, 0.5, shape) * 64) / 64


def random_cell(units: int = UNITS, inputs: int = INPUT) -> list[Array]:
    """Return weights, recurrent weights, bias and state."""
    return [values(units, inputs), values(units, units), values(units), values(BATCH, units)]


def expected_sequence(cell: list[Array], sequence: Array) -> tuple[Array, Array]:
    """Return outputs [time, batch, units] with RELU as activation, and the last state."""
    weights, recurrent, bias, state = cell
    outputs = []
    for step in sequence:
        state = np.maximum(step @ weights.T + state @ recurrent.T + bias, 0)
        outputs.append(state)
    return np.array(outputs), state


@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 2e-3)])
def test_one_step(code: OperandType, tolerance: float) -> None:
    step, cell = values(BATCH, INPUT), random_cell()
    inputs = [tensor(code, step), *(tensor(code, part) for part in cell), *integers(RELU)]
    state, result = compute(OperationType.RNN, inputs, output(code), output(code))
    np.testing.assert_allclose(result, expected_sequence(cell, step[np.newaxis])[1], atol=tolerance)
    np.testing.assert_array_equal(state, result)


UNIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE, CELL = values(TIME, BATCH, INPUT), random_cell()


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 4e-3)])
def test_the_cell_runs_through_time(code: OperandType, tolerance: float, time_major: bool) -> None:
    sequence = (
        UNIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE if time_major else UNIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE.swapaxes(0, 1)
    )
    inputs = [tensor(code, sequence), *(tensor(code, part) for part in CELL), *integers(RELU, int(time_major))]
    outputs, state = compute(OperationType.UNIDIRECTIONAL_SEQUENCE_RNN, inputs, output(code), output(code))
    expected, last = expected_sequence(CELL, UNIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE)
    np.testing.assert_allclose(outputs if time_major else outputs.swapaxes(0, 1), expected, atol=tolerance)
    np.testing.assert_allclose(state, last, atol=tolerance)
    (alone,) = compute(OperationType.UNIDIRECTIONAL_SEQUENCE_RNN, inputs, output(code))
    np.testing.assert_array_equal(alone, outputs)


AUX = 2
BIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE, AUX_SEQUENCE = values(TIME, BATCH, INPUT), values(TIME, BATCH, AUX)
FORWARD, BACKWARD = random_cell(), random_cell(UNITS + 1)
FORWARD_AUX, BACKWARD_AUX = values(UNITS, AUX), values(UNITS + 1, AUX)


def inputs(
    backward: list[Array] = BACKWARD,
    aux: Array | None = None,
    crossed: bool = False,
    merged: bool = False,
    time_major: bool = True,
) -> list[Given]:
    def sequence(values: Array) -> Given:
        return tensor(F32, values if time_major else values.swapaxes(0, 1))

    return [
        sequence(BIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE),
        *(tensor(F32, part) for part in (*FORWARD, *backward)),
        absent(F32) if aux is None else sequence(aux),
        *((tensor(F32, FORWARD_AUX), tensor(F32, BACKWARD_AUX)) if crossed else (absent(F32), absent(F32))),
        *integers(RELU),
        boolean(time_major),
        boolean(merged),
    ]


def run_bidirectional_sequence_rnn(given: list[Given], outputs: int) -> tuple[Array, ...]:
    return compute(OperationType.BIDIRECTIONAL_SEQUENCE_RNN, given, *(output(F32) for _ in range(outputs)))


def check(results: tuple[Array, ...], expected: list[Array]) -> None:
    assert len(results) == len(expected)
    for result, values_ in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, values_, atol=1e-5)


@pytest.mark.parametrize("time_major", [True, False])
def test_the_backward_cell_starts_at_the_end(time_major: bool) -> None:
    forward, backward, *states = run_bidirectional_sequence_rnn(inputs(time_major=time_major), 4)
    first, first_state = expected_sequence(FORWARD, BIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE)
    second, second_state = expected_sequence(BACKWARD, BIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE[::-1])
    if not time_major:
        forward, backward = forward.swapaxes(0, 1), backward.swapaxes(0, 1)
    check((forward, backward, *states), [first, second[::-1], first_state, second_state])


@pytest.mark.parametrize("states", [0, 2])
def test_merged_outputs_are_joined_along_the_last_axis(states: int) -> None:
    first, first_state = expected_sequence(FORWARD, BIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE)
    second, second_state = expected_sequence(BACKWARD, BIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE[::-1])
    merged = np.concatenate([first, second[::-1]], axis=-1)
    check(
        run_bidirectional_sequence_rnn(inputs(merged=True), 1 + states), [merged, *[first_state, second_state][:states]]
    )


def test_cross_linked_cells_read_the_auxiliary_input_beside_the_input() -> None:
    joined = np.concatenate([BIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE, AUX_SEQUENCE], axis=-1)
    forward, _ = expected_sequence([np.hstack([FORWARD[0], FORWARD_AUX]), *FORWARD[1:]], joined)
    backward, _ = expected_sequence([np.hstack([BACKWARD[0], BACKWARD_AUX]), *BACKWARD[1:]], joined[::-1])
    check(run_bidirectional_sequence_rnn(inputs(aux=AUX_SEQUENCE, crossed=True), 2), [forward, backward[::-1]])


def test_a_parallel_linked_backward_cell_reads_the_auxiliary_input_instead() -> None:
    cell = [values(UNITS + 1, AUX), *BACKWARD[1:]]
    backward, _ = expected_sequence(cell, AUX_SEQUENCE[::-1])
    check(
        run_bidirectional_sequence_rnn(inputs(cell, AUX_SEQUENCE), 2),
        [expected_sequence(FORWARD, BIDIRECTIONAL_SEQUENCE_RNN_SEQUENCE)[0], backward[::-1]],
    )


RNG = np.random.default_rng(5)
SVDF_BATCH, SVDF_INPUT, FILTERS, MEMORY, SVDF_TIME = 2, 3, 4, 3, 6
NO_ACTIVATION, SVDF_RELU = 0, 1


def values_svdf(*shape: int) -> Array:
    return np.round(RNG.normal(0, 0.5, shape) * 64) / 64


SVDF_SEQUENCE, FEATURE, TIMING = (
    values_svdf(SVDF_TIME, SVDF_BATCH, SVDF_INPUT),
    values_svdf(FILTERS, SVDF_INPUT),
    values_svdf(FILTERS, MEMORY),
)


def run_svdf(code: OperandType, rank: int, bias: Array | None, activation: int) -> Array:
    """The outputs over time, each step fed the state of the one before."""
    state: Array = np.zeros((SVDF_BATCH, MEMORY * FILTERS))
    outputs = []
    for step in SVDF_SEQUENCE:
        given = absent(code) if bias is None else tensor(code, bias)
        inputs = [tensor(code, part) for part in (step, FEATURE, TIMING)]
        state, result = compute(
            OperationType.SVDF,
            [*inputs, given, tensor(code, state), *integers(rank, activation)],
            output(code),
            output(code),
        )
        outputs.append(result)
    return np.array(outputs)


@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 5e-3)])
@pytest.mark.parametrize("rank", [1, 2])
def test_filters_weigh_the_latest_features_by_time(rank: int, code: OperandType, tolerance: float) -> None:
    bias = values_svdf(FILTERS // rank)
    features = np.concatenate([np.zeros((MEMORY - 1, SVDF_BATCH, FILTERS)), SVDF_SEQUENCE @ FEATURE.T])
    filtered = sum(features[delay : delay + SVDF_TIME] * TIMING[:, delay] for delay in range(MEMORY))
    expected = np.asarray(filtered).reshape(SVDF_TIME, SVDF_BATCH, -1, rank).sum(axis=-1)
    np.testing.assert_allclose(run_svdf(code, rank, None, NO_ACTIVATION), expected, atol=tolerance)
    np.testing.assert_allclose(run_svdf(code, rank, bias, SVDF_RELU), np.maximum(expected + bias, 0), atol=tolerance)


def test_the_newest_place_of_the_state_is_free_between_steps() -> None:
    state = values_svdf(SVDF_BATCH, FILTERS, MEMORY)
    inputs = [tensor(F32, part) for part in (SVDF_SEQUENCE[0], FEATURE, TIMING)]
    after, _ = compute(
        OperationType.SVDF,
        [*inputs, absent(F32), tensor(F32, state.reshape(SVDF_BATCH, -1)), *integers(1, NO_ACTIVATION)],
        output(F32),
        output(F32),
    )
    shifted = after.reshape(SVDF_BATCH, FILTERS, MEMORY)
    np.testing.assert_array_equal(shifted[..., :-2], state[..., 1:-1])
    np.testing.assert_allclose(shifted[..., -2], SVDF_SEQUENCE[0] @ FEATURE.T, atol=1e-6)
    assert not shifted[..., -1].any()
