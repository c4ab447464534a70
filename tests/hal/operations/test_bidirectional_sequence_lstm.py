from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, FLOAT32, I32
from nnhal.operations.lstm import BidirectionalSequenceLstmInput
from nnhal.types import Operand, OperationType
from tests.support.lstm import BATCH, INPUT, UNITS, Form, as_givens, random_weights
from tests.support.operations import (
    Given,
    absent,
    boolean,
    dimensions_of,
    integers,
    level_of,
    open_tensor,
    output,
    scalar,
)

OPERATION = OperationType.BIDIRECTIONAL_SEQUENCE_LSTM
TIME, AUX, TANH = 5, 2, 4


def inputs_of(
    form: Form, aux_input: bool = False, merged: bool = False, time_major: bool = True, backward: Form | None = None
) -> list[Given]:
    backward = backward or form
    cells = random_weights(form), random_weights(backward)
    axes = (TIME, BATCH) if time_major else (BATCH, TIME)
    sizes = (form.output_size, UNITS, backward.output_size, UNITS)
    return [
        open_tensor(F32, (*axes, INPUT)),
        *cells[0].givens(F32),
        *cells[1].givens(F32),
        *(open_tensor(F32, (BATCH, size)) for size in sizes),
        open_tensor(F32, (*axes, AUX)) if aux_input else absent(F32),
        *as_givens(F32, cells[0].aux),
        *as_givens(F32, cells[1].aux),
        *integers(TANH),
        scalar(FLOAT32, 0),
        scalar(FLOAT32, 0),
        boolean(merged),
        boolean(time_major),
        *as_givens(F32, cells[0].layer_norm),
        *as_givens(F32, cells[1].layer_norm),
    ]


def outputs(sequences: int, states: int = 0) -> list[Operand]:
    return [output(F32, (0, 0, 0)) for _ in range(sequences)] + [output(F32, (0, 0)) for _ in range(states)]


def test_every_input_is_named() -> None:
    assert len(BidirectionalSequenceLstmInput) == len(inputs_of(Form())) == 61


@pytest.mark.parametrize(("time_major", "axes"), [(True, (TIME, BATCH)), (False, (BATCH, TIME))])
def test_outputs_and_states(time_major: bool, axes: tuple[int, int]) -> None:
    inputs = inputs_of(Form(projection=2), time_major=time_major, backward=Form(projection=3))
    assert dimensions_of(OPERATION, inputs, *outputs(2)) == ((*axes, 2), (*axes, 3))
    states = ((BATCH, 2), (BATCH, UNITS), (BATCH, 3), (BATCH, UNITS))
    assert dimensions_of(OPERATION, inputs, *outputs(2, 4)) == ((*axes, 2), (*axes, 3), *states)


@pytest.mark.parametrize("states", [0, 4])
def test_merged_outputs_are_one(states: int) -> None:
    inputs = inputs_of(Form(), merged=True)
    found = dimensions_of(OPERATION, inputs, *outputs(1, states))
    assert found[0] == (TIME, BATCH, 2 * UNITS)
    assert len(found) == 1 + states


@pytest.mark.parametrize(("merged", "sequences", "states"), [(False, 1, 0), (True, 2, 0), (False, 1, 4), (True, 2, 4)])
def test_merging_and_the_number_of_outputs_agree(merged: bool, sequences: int, states: int) -> None:
    with pytest.raises(HalError, match=f"got {sequences + states} outputs, expected"):
        dimensions_of(OPERATION, inputs_of(Form(), merged=merged), *outputs(sequences, states))


def test_states_are_all_asked_for_or_none() -> None:
    with pytest.raises(HalError, match="got 4 outputs"):
        level_of(OPERATION, inputs_of(Form()), *outputs(2, 2))


def test_outputs_are_of_the_inputs_type() -> None:
    with pytest.raises(HalError, match="output 1 is TENSOR_INT32"):
        level_of(OPERATION, inputs_of(Form(), merged=True), *outputs(1), output(I32, (0, 0, 0)))


@pytest.mark.parametrize(
    ("inputs", "given", "level"),
    [
        (inputs_of(Form()), outputs(2), 3),
        (inputs_of(Form()), outputs(2, 4), 4),
        (inputs_of(Form(aux=AUX), aux_input=True), outputs(2), 3),
        (inputs_of(Form(), aux_input=True), outputs(2), 4),
    ],
)
def test_states_as_outputs_and_parallel_linking_came_with_level_4(
    inputs: list[Given], given: list[Operand], level: int
) -> None:
    assert level_of(OPERATION, inputs, *given) == level


def test_weights_for_a_missing_auxiliary_input_are_refused() -> None:
    with pytest.raises(HalError, match="weights for the auxiliary input without that input"):
        dimensions_of(OPERATION, inputs_of(Form(aux=AUX)), *outputs(2))


def test_both_cells_are_linked_alike() -> None:
    inputs = inputs_of(Form(aux=AUX), aux_input=True, backward=Form())
    with pytest.raises(HalError, match="expected both or none"):
        dimensions_of(OPERATION, inputs, *outputs(2))


def test_a_parallel_linked_backward_cell_must_fit_the_auxiliary_input() -> None:
    with pytest.raises(HalError, match=f"input size {INPUT}, expected {AUX}"):
        dimensions_of(OPERATION, inputs_of(Form(), aux_input=True), *outputs(2))
