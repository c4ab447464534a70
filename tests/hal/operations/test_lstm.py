from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32
from nnhal.operations.lstm import LstmInput
from nnhal.types import Operand, OperandLifeTime, OperandType, OperationType
from tests.support.lstm import BATCH, FORMS, INPUT, UNITS, Form, as_givens, random_weights
from tests.support.operations import Given, absent, dimensions_of, integers, level_of, open_tensor, output, scalar

LSTM = OperationType.LSTM
TANH = 4
EVERYTHING = Form(peephole=True, projection=2, projection_bias=True, layer_norm=True)


def inputs_of(form: Form, code: OperandType = F32, batch: int = BATCH) -> list[Given]:
    weights = random_weights(form)
    real = FLOAT16 if code == F16 else FLOAT32
    inputs = [
        open_tensor(code, (batch, INPUT)),
        *weights.givens(code),
        open_tensor(code, (batch, form.output_size)),
        open_tensor(code, (batch, UNITS)),
        *integers(TANH),
        scalar(real, 0),
        scalar(real, 0),
    ]
    return inputs + as_givens(code, weights.layer_norm) if form.layer_norm else inputs


def outputs_of(code: OperandType = F32) -> list[Operand]:
    return [output(code, (0, 0)) for _ in range(4)]


@pytest.mark.parametrize("name", FORMS)
def test_the_dimensions_of_each_form(name: str) -> None:
    form = FORMS[name]
    scratch, state, cell, result = dimensions_of(LSTM, inputs_of(form), *outputs_of())
    assert scratch == (BATCH, UNITS * (3 if form.coupled else 4))
    assert (state, cell, result) == ((BATCH, form.output_size), (BATCH, UNITS), (BATCH, form.output_size))


@pytest.mark.parametrize(
    ("form", "code", "level"), [(Form(), F32, 1), (Form(), F16, 3), (Form(layer_norm=True), F32, 3)]
)
def test_layer_normalisation_and_float16_came_with_level_3(form: Form, code: OperandType, level: int) -> None:
    assert level_of(LSTM, inputs_of(form, code), *outputs_of(code)) == level


def test_an_unknown_batch_stays_unknown() -> None:
    _, state, *_ = dimensions_of(LSTM, inputs_of(Form(), batch=0), *outputs_of())
    assert state == (0, UNITS)


@pytest.mark.parametrize(
    ("form", "missing", "message"),
    [
        (EVERYTHING, LstmInput.INPUT_GATE_BIAS, "input gate: some are left out"),
        (EVERYTHING, LstmInput.RECURRENT_TO_INPUT_WEIGHTS, "input gate: some are left out"),
        (EVERYTHING, LstmInput.CELL_TO_INPUT_WEIGHTS, "peephole weights: some are left out"),
        (EVERYTHING, LstmInput.CELL_TO_OUTPUT_WEIGHTS, "peephole weights: some are left out"),
        (EVERYTHING, LstmInput.CELL_LAYER_NORM_WEIGHTS, "layer normalisation weights: some are left out"),
        (EVERYTHING, LstmInput.PROJECTION_WEIGHTS, "projection bias without projection weights"),
    ],
)
def test_groups_of_optional_operands_come_whole(form: Form, missing: LstmInput, message: str) -> None:
    inputs = inputs_of(form)
    inputs[missing] = absent(F32)
    level_of(LSTM, inputs, *outputs_of())
    with pytest.raises(HalError, match=message):
        dimensions_of(LSTM, inputs, *outputs_of())


def test_a_coupled_input_gate_has_no_operands() -> None:
    form = Form(coupled=True, peephole=True)
    inputs = inputs_of(form)
    inputs[LstmInput.CELL_TO_INPUT_WEIGHTS] = inputs[LstmInput.CELL_TO_FORGET_WEIGHTS]
    with pytest.raises(HalError, match="the gate is coupled to the forget gate"):
        dimensions_of(LSTM, inputs, *outputs_of())


@pytest.mark.parametrize("required", [LstmInput.INPUT_TO_FORGET_WEIGHTS, LstmInput.CELL_BIAS, LstmInput.OUTPUT_STATE])
def test_what_every_form_needs_is_not_left_out(required: LstmInput) -> None:
    inputs = inputs_of(Form())
    inputs[required] = absent(F32)
    with pytest.raises(HalError, match="is NO_VALUE, expected a value"):
        level_of(LSTM, inputs, *outputs_of())


def test_optional_operands_have_their_type_even_when_left_out() -> None:
    inputs = inputs_of(Form())
    inputs[LstmInput.PROJECTION_WEIGHTS] = absent(F16)
    with pytest.raises(HalError, match="TENSOR_FLOAT16, expected TENSOR_FLOAT32"):
        level_of(LSTM, inputs, *outputs_of())


def test_the_form_is_open_while_the_request_may_omit_operands() -> None:
    inputs = inputs_of(Form())
    weights = inputs[LstmInput.INPUT_TO_INPUT_WEIGHTS].operand
    inputs[LstmInput.INPUT_TO_INPUT_WEIGHTS] = Given(replace(weights, lifetime=OperandLifeTime.SUBGRAPH_INPUT))
    with pytest.raises(UnknownYet):
        dimensions_of(LSTM, inputs, *outputs_of())


@pytest.mark.parametrize(
    ("index", "value"), [(LstmInput.ACTIVATION, 2), (LstmInput.ACTIVATION, 5), (LstmInput.ACTIVATION, -1)]
)
def test_other_activations_are_refused(index: LstmInput, value: int) -> None:
    inputs = inputs_of(Form())
    inputs[index : index + 1] = integers(value)
    with pytest.raises(HalError, match=f"activation {value}, expected 0"):
        dimensions_of(LSTM, inputs, *outputs_of())


@pytest.mark.parametrize("index", [LstmInput.CELL_CLIP, LstmInput.PROJECTION_CLIP])
def test_negative_clips_are_refused(index: LstmInput) -> None:
    inputs = inputs_of(Form())
    inputs[index] = scalar(FLOAT32, -1)
    with pytest.raises(HalError, match="expected 0 or more"):
        dimensions_of(LSTM, inputs, *outputs_of())


def test_without_projection_the_output_has_as_many_elements_as_units() -> None:
    inputs = inputs_of(Form(projection=2))
    inputs[LstmInput.PROJECTION_WEIGHTS] = absent(F32)
    with pytest.raises(HalError, match="a cell without projection makes the output size 4, expected 2"):
        dimensions_of(LSTM, inputs, *outputs_of())
