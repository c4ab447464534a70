from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.lstm import (
    BATCH,
    INPUT,
    UNITS,
    Form,
    Weights,
    as_givens,
    expected_sequence,
    random_weights,
    without_aux,
)
from tests.support.operations import Given, absent, boolean, integers, output, scalar, tensor

RNG = np.random.default_rng(3)
TIME, AUX = 4, 2
VALUES = np.round(RNG.normal(0, 1, (TIME, BATCH, INPUT)) * 64) / 64
AUX_VALUES = np.round(RNG.normal(0, 1, (TIME, BATCH, AUX)) * 64) / 64
TANH = 4


class Both:
    """A forward and a backward cell of one form, with states to start from."""

    def __init__(self, form: Form, backward_input: int = INPUT) -> None:
        self.form = form
        self.cells = (random_weights(form, 5), random_weights(form, 6, backward_input))
        sizes = (form.output_size, UNITS, form.output_size, UNITS)
        self.states = [np.round(RNG.normal(0, 0.5, (BATCH, size)) * 64) / 64 for size in sizes]

    def inputs(
        self,
        code: OperandType = F32,
        aux: Array | None = None,
        merged: bool = False,
        time_major: bool = True,
    ) -> list[Given]:
        def sequence(values: Array) -> Given:
            return tensor(code, values if time_major else values.swapaxes(0, 1))

        forward, backward = self.cells
        real = FLOAT16 if code == F16 else FLOAT32
        return [
            sequence(VALUES),
            *forward.givens(code),
            *backward.givens(code),
            *(tensor(code, state) for state in self.states),
            absent(code) if aux is None else sequence(aux),
            *as_givens(code, forward.aux),
            *as_givens(code, backward.aux),
            *integers(TANH),
            scalar(real, self.form.cell_clip),
            scalar(real, self.form.projection_clip),
            boolean(merged),
            boolean(time_major),
            *as_givens(code, forward.layer_norm),
            *as_givens(code, backward.layer_norm),
        ]

    def expected(self, forward_values: Array, backward_values: Array) -> list[Array]:
        """Forward and backward outputs, and the four states."""

        def run(cell: Weights, values: Array, states: list[Array]) -> tuple[Array, Array, Array]:
            return expected_sequence(without_aux(cell) if cell.form.aux else cell, values, *states)

        forward, *forward_states = run(self.cells[0], forward_values, self.states[:2])
        backward, *backward_states = run(self.cells[1], backward_values[::-1], self.states[2:])
        return [forward, backward[::-1], *forward_states, *backward_states]


def check(results: tuple[Array, ...], expected: list[Array], tolerance: float = 1e-5) -> None:
    assert len(results) == len(expected)
    for result, values in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, values, atol=tolerance)


@pytest.mark.parametrize(("code", "tolerance"), [(F32, 1e-5), (F16, 2e-3)])
@pytest.mark.parametrize(
    "form", [Form(), Form(coupled=True, peephole=True), Form(False, True, 2, True, True, 0, 0.5, 0.25)]
)
def test_the_backward_cell_starts_at_the_end(form: Form, code: OperandType, tolerance: float) -> None:
    both = Both(form)
    results = compute(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(code), *(output(code) for _ in range(6)))
    check(results, both.expected(VALUES, VALUES), tolerance)


def test_batch_major_is_the_transpose_of_time_major() -> None:
    both = Both(Form())
    outputs = [output(F32), output(F32)]
    by_time = compute(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(), *outputs)
    by_batch = compute(OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(time_major=False), *outputs)
    check(by_batch, [values.swapaxes(0, 1) for values in by_time])


@pytest.mark.parametrize("states", [0, 4])
def test_merged_outputs_are_joined_along_the_last_axis(states: int) -> None:
    both = Both(Form(projection=2))
    results = compute(
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(merged=True), *(output(F32) for _ in range(1 + states))
    )
    forward, backward, *last = both.expected(VALUES, VALUES)
    check(results, [np.concatenate([forward, backward], axis=-1), *last[:states]])


@pytest.mark.parametrize("coupled", [False, True])
def test_cross_linked_cells_read_the_auxiliary_input_beside_the_input(coupled: bool) -> None:
    both = Both(Form(coupled=coupled, layer_norm=True, aux=AUX))
    results = compute(
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(aux=AUX_VALUES), *(output(F32) for _ in range(6))
    )
    joined = np.concatenate([VALUES, AUX_VALUES], axis=-1)
    check(results, both.expected(joined, joined))


def test_a_parallel_linked_backward_cell_reads_the_auxiliary_input_instead() -> None:
    both = Both(Form(), backward_input=AUX)
    results = compute(
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM, both.inputs(aux=AUX_VALUES), *(output(F32) for _ in range(6))
    )
    check(results, both.expected(VALUES, AUX_VALUES))
