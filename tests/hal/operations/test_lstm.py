from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32, I32, INT32, Q8A, Q8AS, Q8S, Q16S
from nnhal.operations.lstm import BidirectionalSequenceLstmInput, LstmInput, Quantized16bitLstmInput, QuantizedLstmInput
from nnhal.types import Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.lstm import BATCH, FORMS, INPUT, UNITS, Form, as_givens, random_weights
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


BIDIRECTIONAL = OperationType.BIDIRECTIONAL_SEQUENCE_LSTM
TIME, AUX = 5, 2


def bidirectional_inputs(
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
    assert len(BidirectionalSequenceLstmInput) == len(bidirectional_inputs(Form())) == 61


@pytest.mark.parametrize(("time_major", "axes"), [(True, (TIME, BATCH)), (False, (BATCH, TIME))])
def test_outputs_and_states(time_major: bool, axes: tuple[int, int]) -> None:
    inputs = bidirectional_inputs(Form(projection=2), time_major=time_major, backward=Form(projection=3))
    assert dimensions_of(BIDIRECTIONAL, inputs, *outputs(2)) == ((*axes, 2), (*axes, 3))
    states = ((BATCH, 2), (BATCH, UNITS), (BATCH, 3), (BATCH, UNITS))
    assert dimensions_of(BIDIRECTIONAL, inputs, *outputs(2, 4)) == ((*axes, 2), (*axes, 3), *states)


@pytest.mark.parametrize("states", [0, 4])
def test_merged_outputs_are_one(states: int) -> None:
    inputs = bidirectional_inputs(Form(), merged=True)
    found = dimensions_of(BIDIRECTIONAL, inputs, *outputs(1, states))
    assert found[0] == (TIME, BATCH, 2 * UNITS)
    assert len(found) == 1 + states


@pytest.mark.parametrize(("merged", "sequences", "states"), [(False, 1, 0), (True, 2, 0), (False, 1, 4), (True, 2, 4)])
def test_merging_and_the_number_of_outputs_agree(merged: bool, sequences: int, states: int) -> None:
    with pytest.raises(HalError, match=f"got {sequences + states} outputs, expected"):
        dimensions_of(BIDIRECTIONAL, bidirectional_inputs(Form(), merged=merged), *outputs(sequences, states))


def test_states_are_all_asked_for_or_none() -> None:
    with pytest.raises(HalError, match="got 4 outputs"):
        level_of(BIDIRECTIONAL, bidirectional_inputs(Form()), *outputs(2, 2))


def test_outputs_are_of_the_inputs_type() -> None:
    with pytest.raises(HalError, match="output 1 is TENSOR_INT32"):
        level_of(BIDIRECTIONAL, bidirectional_inputs(Form(), merged=True), *outputs(1), output(I32, (0, 0, 0)))


@pytest.mark.parametrize(
    ("inputs", "given", "level"),
    [
        (bidirectional_inputs(Form()), outputs(2), 3),
        (bidirectional_inputs(Form()), outputs(2, 4), 4),
        (bidirectional_inputs(Form(aux=AUX), aux_input=True), outputs(2), 3),
        (bidirectional_inputs(Form(), aux_input=True), outputs(2), 4),
    ],
)
def test_states_as_outputs_and_parallel_linking_came_with_level_4(
    inputs: list[Given], given: list[Operand], level: int
) -> None:
    assert level_of(BIDIRECTIONAL, inputs, *given) == level


def test_weights_for_a_missing_auxiliary_input_are_refused() -> None:
    with pytest.raises(HalError, match="weights for the auxiliary input without that input"):
        dimensions_of(BIDIRECTIONAL, bidirectional_inputs(Form(aux=AUX)), *outputs(2))


def test_both_cells_are_linked_alike() -> None:
    inputs = bidirectional_inputs(Form(aux=AUX), aux_input=True, backward=Form())
    with pytest.raises(HalError, match="expected both or none"):
        dimensions_of(BIDIRECTIONAL, inputs, *outputs(2))


def test_a_parallel_linked_backward_cell_must_fit_the_auxiliary_input() -> None:
    with pytest.raises(HalError, match=f"input size {INPUT}, expected {AUX}"):
        dimensions_of(BIDIRECTIONAL, bidirectional_inputs(Form(), aux_input=True), *outputs(2))


QUANTIZED_16BIT = OperationType.QUANTIZED_16BIT_LSTM
QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_INPUT, QUANTIZED_16BIT_LSTM_UNITS = 2, 3, 4
OUTPUTS_OF_16BIT = [output(Q16S, (0, 0), 2**-11), output(Q8A, (0, 0), 1 / 128, 128)]


def inputs_of_16bit() -> list[Given]:
    return [
        open_tensor(Q8A, (QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_INPUT), 1 / 128, 128),
        *(
            open_tensor(Q8A, (QUANTIZED_16BIT_LSTM_UNITS, QUANTIZED_16BIT_LSTM_INPUT), 0.00408021, 100)
            for _ in range(4)
        ),
        *(
            open_tensor(Q8A, (QUANTIZED_16BIT_LSTM_UNITS, QUANTIZED_16BIT_LSTM_UNITS), 0.00408021, 100)
            for _ in range(4)
        ),
        *(open_tensor(I32, (QUANTIZED_16BIT_LSTM_UNITS,), 3.18766e-05) for _ in range(4)),
        open_tensor(Q16S, (QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_UNITS), 2**-11),
        open_tensor(Q8A, (QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_UNITS), 1 / 128, 128),
    ]


def test_cell_state_and_output() -> None:
    assert level_of(QUANTIZED_16BIT, inputs_of_16bit(), *OUTPUTS_OF_16BIT) == 3
    assert dimensions_of(QUANTIZED_16BIT, inputs_of_16bit(), *OUTPUTS_OF_16BIT) == (
        (QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_UNITS),
        (QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_UNITS),
    )


@pytest.mark.parametrize(
    ("index", "wrong", "message"),
    [
        (
            Quantized16bitLstmInput.INPUT,
            open_tensor(Q8A, (QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_INPUT), 1 / 64, 128),
            "input has scale and zero point",
        ),
        (
            Quantized16bitLstmInput.OUTPUT_STATE,
            open_tensor(Q8A, (QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_UNITS), 1 / 128, 127),
            "output state has",
        ),
        (
            Quantized16bitLstmInput.CELL_STATE,
            open_tensor(Q16S, (QUANTIZED_16BIT_LSTM_BATCH, QUANTIZED_16BIT_LSTM_UNITS), 2**-12),
            "cell state has",
        ),
        (
            Quantized16bitLstmInput.RECURRENT_TO_CELL_WEIGHTS,
            open_tensor(Q8A, (QUANTIZED_16BIT_LSTM_UNITS, QUANTIZED_16BIT_LSTM_UNITS), 0.005, 100),
            "input 7 has",
        ),
        (Quantized16bitLstmInput.CELL_BIAS, open_tensor(I32, (QUANTIZED_16BIT_LSTM_UNITS,), 1e-5), "bias 11 has scale"),
        (
            Quantized16bitLstmInput.CELL_BIAS,
            open_tensor(I32, (QUANTIZED_16BIT_LSTM_UNITS + 1,), 3.18766e-05),
            "input 11 makes the output size 5",
        ),
    ],
)
def test_other_quantisations_and_sizes_are_refused(index: Quantized16bitLstmInput, wrong: Given, message: str) -> None:
    inputs = inputs_of_16bit()
    inputs[index] = wrong
    with pytest.raises(HalError, match=message):
        dimensions_of(QUANTIZED_16BIT, inputs, *OUTPUTS_OF_16BIT)


def test_the_outputs_quantisation_is_fixed() -> None:
    with pytest.raises(HalError, match="output 1 has scale"):
        dimensions_of(QUANTIZED_16BIT, inputs_of_16bit(), OUTPUTS_OF_16BIT[0], output(Q8A, (0, 0), 1 / 256, 128))


QUANTIZED = OperationType.QUANTIZED_LSTM
QUANTIZED_LSTM_BATCH, QUANTIZED_LSTM_INPUT, QUANTIZED_LSTM_UNITS = 2, 5, 4
CELL_SCALE = 2.0**-12
QUANTIZED_OUTPUTS = [output(Q8AS, (0, 0), 1 / 128), output(Q16S, (0, 0), CELL_SCALE), output(Q8AS, (0, 0), 1 / 128)]


def quantized_inputs(cell_scale: float = CELL_SCALE, hidden: tuple[int, float] = (0, 1 / 128)) -> list[Given]:
    def four(*dimensions: int) -> list[Given]:
        return [open_tensor(Q8S, dimensions, 0.01) for _ in range(4)]

    return [
        open_tensor(Q8AS, (QUANTIZED_LSTM_BATCH, QUANTIZED_LSTM_INPUT), 0.01),
        *four(QUANTIZED_LSTM_UNITS, QUANTIZED_LSTM_INPUT),
        *four(QUANTIZED_LSTM_UNITS, QUANTIZED_LSTM_UNITS),
        *(absent(Q16S) for _ in range(3)),
        *(open_tensor(I32, (QUANTIZED_LSTM_UNITS,)) for _ in range(4)),
        absent(Q8S),
        absent(I32),
        open_tensor(Q8AS, (QUANTIZED_LSTM_BATCH, QUANTIZED_LSTM_UNITS), 1 / 128),
        open_tensor(Q16S, (QUANTIZED_LSTM_BATCH, QUANTIZED_LSTM_UNITS), cell_scale),
        *(absent(Q16S) for _ in range(4)),
        *(scalar(FLOAT32, 0) for _ in range(6)),
        scalar(INT32, hidden[0]),
        scalar(FLOAT32, hidden[1]),
    ]


def test_states_and_output() -> None:
    expected: tuple[Dimensions, ...] = ((QUANTIZED_LSTM_BATCH, QUANTIZED_LSTM_UNITS),) * 3
    assert level_of(QUANTIZED, quantized_inputs(), *QUANTIZED_OUTPUTS) == 4
    assert dimensions_of(QUANTIZED, quantized_inputs(), *QUANTIZED_OUTPUTS) == expected


@pytest.mark.parametrize("scale", [3.05176e-05, 2.0**-9])
def test_the_cell_states_scale_is_a_power_of_two_to_a_few_decimals(scale: float) -> None:
    assert dimensions_of(QUANTIZED, quantized_inputs(scale), *QUANTIZED_OUTPUTS)


@pytest.mark.parametrize("scale", [2.0**-8, 2.0**-16, 0.0003])
def test_other_scales_of_the_cell_state_are_refused(scale: float) -> None:
    with pytest.raises(HalError, match="expected a power of two"):
        dimensions_of(QUANTIZED, quantized_inputs(scale), *QUANTIZED_OUTPUTS)


@pytest.mark.parametrize(
    ("hidden", "message"), [((128, 0.01), "zero point 128"), ((0, 0.0), "input 31 is the scale 0.0")]
)
def test_the_hidden_states_quantisation_is_one(hidden: tuple[int, float], message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(QUANTIZED, quantized_inputs(hidden=hidden), *QUANTIZED_OUTPUTS)


def test_intermediate_scales_matter_only_with_layer_normalisation() -> None:
    inputs = quantized_inputs()
    for index in range(QuantizedLstmInput.INPUT_LAYER_NORM_WEIGHTS, QuantizedLstmInput.CELL_CLIP):
        inputs[index] = open_tensor(Q16S, (QUANTIZED_LSTM_UNITS,), 0.001)
    with pytest.raises(HalError, match=r"input 26 is the scale 0\.0"):
        dimensions_of(QUANTIZED, inputs, *QUANTIZED_OUTPUTS)
