"""Recurrent operators for one step and for whole sequences."""

from __future__ import annotations

from typing import Any

import pytest
from tflite import ActivationFunctionType, LSTMKernelType

from nnhal_frontends.tflite import import_tflite
from tests.support.drawn_values import random
from tests.support.tflite_files import Variable, floats
from tests.support.tflite_operators import Given, check_steps, one

BATCH, STEPS, SIZE, UNITS, PROJECTED = 2, 6, 3, 4, 5
TANH = {"FusedActivationFunction": ActivationFunctionType.TANH, "CellClip": 0.8}
RELU = {"FusedActivationFunction": ActivationFunctionType.RELU}


def small(*shape: int) -> Any:
    """Weights with which values neither vanish nor grow."""
    return random(*shape, low=-0.5, high=0.5)


def state(*shape: int) -> Variable:
    return Variable(floats(*shape))


def cell(coupled: bool = False, peephole: bool = False, projected: bool = False) -> list[Given]:
    """The weights and biases of an LSTM. Coupled gates have none for the input gate."""
    size = PROJECTED if projected else UNITS

    def gates(wanted: bool, *shape: int, names: str = "ifco") -> list[Given]:
        return [small(*shape) if wanted and not (coupled and name == "i") else None for name in names]

    projection: list[Given] = [small(PROJECTED, UNITS), small(PROJECTED)] if projected else [None, None]
    return [
        *gates(True, UNITS, SIZE),
        *gates(True, UNITS, size),
        *gates(peephole, UNITS, names="ifo"),
        *gates(True, UNITS),
        *projection,
    ]


def norms(coupled: bool, wanted: bool) -> list[Given]:
    return [1 + small(UNITS) if wanted and not (coupled and gate == 0) else None for gate in range(4)]


FORMS = [
    {},
    {"coupled": True},
    {"peephole": True},
    {"projected": True},
    {"norm": True},
    {"peephole": True, "projected": True, "norm": True, "coupled": True},
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(form))
def test_a_step_of_an_lstm(form: dict[str, bool]) -> None:
    norm = form.get("norm", False)
    weights = cell(**{key: value for key, value in form.items() if key != "norm"})
    size = PROJECTED if form.get("projected") else UNITS
    inputs = [floats(BATCH, SIZE), *weights, state(BATCH, size), state(BATCH, UNITS)]
    if norm:
        inputs += norms(form.get("coupled", False), norm)
    options = ("LSTMOptions", {**TANH, "ProjClip": 0.7, "KernelType": LSTMKernelType.FULL})
    assert one("LSTM", inputs, floats(BATCH, size), options).check() == ["LSTM"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(form))
@pytest.mark.parametrize("time_major", [False, True])
def test_an_lstm_over_a_sequence(form: dict[str, bool], time_major: bool) -> None:
    weights = cell(**{key: value for key, value in form.items() if key != "norm"})
    size = PROJECTED if form.get("projected") else UNITS
    axes = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    layer_norms = norms(form.get("coupled", False), form.get("norm", False))
    inputs = [floats(*axes, SIZE), *weights, state(BATCH, size), state(BATCH, UNITS), *layer_norms]
    options = ("UnidirectionalSequenceLSTMOptions", {**TANH, "TimeMajor": time_major})
    node = one("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, floats(*axes, size), options)
    assert node.check() == ["UNIDIRECTIONAL_SEQUENCE_LSTM"]


@pytest.mark.parametrize("merge", [False, True])
def test_an_lstm_in_both_directions(merge: bool) -> None:
    # In a larger batch LiteRT merges outputs that it has not written.
    states = [state(1, UNITS)] * 4
    inputs = [floats(1, STEPS, SIZE), *cell(), *cell(peephole=True), *states, *[None] * 9]
    outputs = [floats(1, STEPS, 2 * UNITS)] if merge else [floats(1, STEPS, UNITS)] * 2
    options = ("BidirectionalSequenceLSTMOptions", {**TANH, "MergeOutputs": merge, "TimeMajor": False})
    assert one("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, outputs, options).check() == ["BIDIRECTIONAL_SEQUENCE_LSTM"]


def rnn_cell() -> list[Given]:
    return [small(UNITS, SIZE), small(UNITS, UNITS), small(UNITS)]


@pytest.mark.parametrize("time_major", [False, True])
def test_an_rnn_over_a_sequence(time_major: bool) -> None:
    axes = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    options = ("SequenceRNNOptions", {**RELU, "TimeMajor": time_major})
    inputs = [floats(*axes, SIZE), *rnn_cell(), state(BATCH, UNITS)]
    node = one("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, floats(*axes, UNITS), options)
    assert node.check() == ["UNIDIRECTIONAL_SEQUENCE_RNN"]


@pytest.mark.parametrize("merge", [False, True])
def test_an_rnn_in_both_directions(merge: bool) -> None:
    inputs = [floats(BATCH, STEPS, SIZE), *[*rnn_cell(), state(BATCH, UNITS)] * 2, None, None, None]
    outputs = [floats(BATCH, STEPS, 2 * UNITS)] if merge else [floats(BATCH, STEPS, UNITS)] * 2
    options = ("BidirectionalSequenceRNNOptions", {**RELU, "MergeOutputs": merge})
    assert one("BIDIRECTIONAL_SEQUENCE_RNN", inputs, outputs, options).check() == ["BIDIRECTIONAL_SEQUENCE_RNN"]


@pytest.mark.parametrize("bias", [[random(4)], [None]])
def test_an_svdf_is_imported_as_it_is(bias: list[Given]) -> None:
    inputs = [floats(BATCH, SIZE), small(8, SIZE), small(8, 6), *bias, state(BATCH, 48)]
    assert one("SVDF", inputs, floats(BATCH, 4), ("SVDFOptions", {**RELU, "Rank": 2})).check() == ["SVDF"]


def test_variables_of_operators_that_do_one_step_are_states() -> None:
    node = one(
        "RNN", [floats(BATCH, SIZE), *rnn_cell(), state(BATCH, UNITS)], floats(BATCH, UNITS), ("RNNOptions", RELU)
    )
    imported = import_tflite(node.file())
    assert [tensor.name for tensor in imported.inputs] == ["x0"]
    assert [tensor.name for tensor in imported.outputs] == ["y0"]
    assert [found.name for found in imported.states] == ["v4"]
    check_steps(node.file(), [{"x0": random(BATCH, SIZE, seed=step)} for step in range(3)])


def test_two_states_of_an_lstm_are_carried() -> None:
    inputs = [floats(BATCH, SIZE), *cell(), state(BATCH, UNITS), state(BATCH, UNITS)]
    node = one("LSTM", inputs, floats(BATCH, UNITS), ("LSTMOptions", TANH))
    check_steps(node.file(), [{"x0": random(BATCH, SIZE, seed=step)} for step in range(4)])


def test_forms_that_the_hal_has_not_are_refused() -> None:
    rnn = [floats(BATCH, SIZE), *rnn_cell(), state(BATCH, UNITS)]
    assert one("RNN", rnn, floats(BATCH, UNITS), ("RNNOptions", TANH_OF_AN_RNN)).refusal() == "fused activation 4"
    basic = ("LSTMOptions", {"KernelType": LSTMKernelType.BASIC})
    assert one("LSTM", [floats(BATCH, SIZE)], floats(BATCH, UNITS), basic).refusal() == "kernel type 1"


TANH_OF_AN_RNN = {"FusedActivationFunction": ActivationFunctionType.TANH}
