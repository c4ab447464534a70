from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32
from nnhal.operations.rnn import RnnInput
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, absent, dimensions_of, integers, level_of, open_tensor, output

RNN, SEQUENCE = OperationType.RNN, OperationType.UNIDIRECTIONAL_SEQUENCE_RNN
BATCH, INPUT, UNITS, TIME = 2, 3, 4, 5


def cell(code: OperandType = F32) -> list[Given]:
    return [open_tensor(code, dimensions) for dimensions in ((UNITS, INPUT), (UNITS, UNITS), (UNITS,), (BATCH, UNITS))]


@pytest.mark.parametrize(("code", "level"), [(F32, 1), (F16, 3)])
def test_state_and_output(code: OperandType, level: int) -> None:
    inputs = [open_tensor(code, (BATCH, INPUT)), *cell(code), *integers(1)]
    assert level_of(RNN, inputs, output(code, (0, 0)), output(code, (0, 0))) == level
    assert dimensions_of(RNN, inputs, output(code), output(code)) == ((BATCH, UNITS), (BATCH, UNITS))


def test_recurrent_weights_are_square() -> None:
    inputs = [open_tensor(F32, (BATCH, INPUT)), *cell(), *integers(1)]
    inputs[RnnInput.RECURRENT_WEIGHTS] = open_tensor(F32, (UNITS, UNITS + 1))
    with pytest.raises(HalError, match="the output size 5, expected 4"):
        dimensions_of(RNN, inputs, output(F32), output(F32))


@pytest.mark.parametrize(("time_major", "axes"), [(1, (TIME, BATCH)), (0, (BATCH, TIME))])
def test_a_sequences_order_of_axes(time_major: int, axes: tuple[int, int]) -> None:
    inputs = [open_tensor(F32, (*axes, INPUT)), *cell(), *integers(0, time_major)]
    assert level_of(SEQUENCE, inputs, output(F32, (0, 0, 0))) == 3
    assert dimensions_of(SEQUENCE, inputs, output(F32)) == ((*axes, UNITS),)


def test_the_state_as_output_came_with_level_4() -> None:
    inputs = [open_tensor(F32, (TIME, BATCH, INPUT)), *cell(), *integers(0, 1)]
    outputs = output(F32, (0, 0, 0)), output(F32, (0, 0))
    assert level_of(SEQUENCE, inputs, *outputs) == 4
    assert dimensions_of(SEQUENCE, inputs, *outputs) == ((TIME, BATCH, UNITS), (BATCH, UNITS))


@pytest.mark.parametrize(("activation", "time_major"), [(4, 1), (0, 2)])
def test_other_activations_and_orders_are_refused(activation: int, time_major: int) -> None:
    inputs = [open_tensor(F32, (TIME, BATCH, INPUT)), *cell(), *integers(activation, time_major)]
    with pytest.raises(HalError, match="expected 0"):
        dimensions_of(SEQUENCE, inputs, output(F32))


SVDF = OperationType.SVDF
SVDF_BATCH, SVDF_INPUT, FILTERS, MEMORY = 2, 3, 6, 5


def inputs_of(rank: int, bias: Dimensions = (), state: Dimensions = (SVDF_BATCH, MEMORY * FILTERS)) -> list[Given]:
    return [
        open_tensor(F32, (SVDF_BATCH, SVDF_INPUT)),
        open_tensor(F32, (FILTERS, SVDF_INPUT)),
        open_tensor(F32, (FILTERS, MEMORY)),
        open_tensor(F32, bias) if bias else absent(F32),
        open_tensor(F32, state),
        *integers(rank, 0),
    ]


@pytest.mark.parametrize("bias", [(), (3,)])
def test_svdf_state_and_output(bias: Dimensions) -> None:
    inputs = inputs_of(2, bias)
    assert level_of(SVDF, inputs, output(F32, (0, 0)), output(F32, (0, 0))) == 1
    assert dimensions_of(SVDF, inputs, output(F32), output(F32)) == ((SVDF_BATCH, MEMORY * FILTERS), (SVDF_BATCH, 3))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (inputs_of(4), "got 6 filters, expected a multiple of 4"),
        (inputs_of(0), "rank 0, expected 1 or more"),
        (inputs_of(2, (6,)), "the units 6, expected 3"),
        (inputs_of(2, (), (SVDF_BATCH, (MEMORY - 1) * FILTERS)), "the state size 30, expected 24"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Given], message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(SVDF, inputs, output(F32), output(F32))
