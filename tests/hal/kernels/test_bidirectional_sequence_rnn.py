from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, absent, boolean, integers, output, tensor
from tests.support.rnn import BATCH, INPUT, RELU, TIME, UNITS, expected_sequence, random_cell, values

AUX = 2
SEQUENCE, AUX_SEQUENCE = values(TIME, BATCH, INPUT), values(TIME, BATCH, AUX)
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
        sequence(SEQUENCE),
        *(tensor(F32, part) for part in (*FORWARD, *backward)),
        absent(F32) if aux is None else sequence(aux),
        *((tensor(F32, FORWARD_AUX), tensor(F32, BACKWARD_AUX)) if crossed else (absent(F32), absent(F32))),
        *integers(RELU),
        boolean(time_major),
        boolean(merged),
    ]


def run(given: list[Given], outputs: int) -> tuple[Array, ...]:
    return compute(OperationType.BIDIRECTIONAL_SEQUENCE_RNN, given, *(output(F32) for _ in range(outputs)))


def check(results: tuple[Array, ...], expected: list[Array]) -> None:
    assert len(results) == len(expected)
    for result, values_ in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, values_, atol=1e-5)


@pytest.mark.parametrize("time_major", [True, False])
def test_the_backward_cell_starts_at_the_end(time_major: bool) -> None:
    forward, backward, *states = run(inputs(time_major=time_major), 4)
    first, first_state = expected_sequence(FORWARD, SEQUENCE)
    second, second_state = expected_sequence(BACKWARD, SEQUENCE[::-1])
    if not time_major:
        forward, backward = forward.swapaxes(0, 1), backward.swapaxes(0, 1)
    check((forward, backward, *states), [first, second[::-1], first_state, second_state])


@pytest.mark.parametrize("states", [0, 2])
def test_merged_outputs_are_joined_along_the_last_axis(states: int) -> None:
    first, first_state = expected_sequence(FORWARD, SEQUENCE)
    second, second_state = expected_sequence(BACKWARD, SEQUENCE[::-1])
    merged = np.concatenate([first, second[::-1]], axis=-1)
    check(run(inputs(merged=True), 1 + states), [merged, *[first_state, second_state][:states]])


def test_cross_linked_cells_read_the_auxiliary_input_beside_the_input() -> None:
    joined = np.concatenate([SEQUENCE, AUX_SEQUENCE], axis=-1)
    forward, _ = expected_sequence([np.hstack([FORWARD[0], FORWARD_AUX]), *FORWARD[1:]], joined)
    backward, _ = expected_sequence([np.hstack([BACKWARD[0], BACKWARD_AUX]), *BACKWARD[1:]], joined[::-1])
    check(run(inputs(aux=AUX_SEQUENCE, crossed=True), 2), [forward, backward[::-1]])


def test_a_parallel_linked_backward_cell_reads_the_auxiliary_input_instead() -> None:
    cell = [values(UNITS + 1, AUX), *BACKWARD[1:]]
    backward, _ = expected_sequence(cell, AUX_SEQUENCE[::-1])
    check(run(inputs(cell, AUX_SEQUENCE), 2), [expected_sequence(FORWARD, SEQUENCE)[0], backward[::-1]])
