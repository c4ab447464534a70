from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import I32, Q8A, Q16S
from nnhal.operations.lstm import Quantized16bitLstmInput
from nnhal.types import OperationType
from tests.support.operations import Given, dimensions_of, level_of, open_tensor, output

OPERATION = OperationType.QUANTIZED_16BIT_LSTM
BATCH, INPUT, UNITS = 2, 3, 4
OUTPUTS = [output(Q16S, (0, 0), 2**-11), output(Q8A, (0, 0), 1 / 128, 128)]


def inputs_of() -> list[Given]:
    return [
        open_tensor(Q8A, (BATCH, INPUT), 1 / 128, 128),
        *(open_tensor(Q8A, (UNITS, INPUT), 0.00408021, 100) for _ in range(4)),
        *(open_tensor(Q8A, (UNITS, UNITS), 0.00408021, 100) for _ in range(4)),
        *(open_tensor(I32, (UNITS,), 3.18766e-05) for _ in range(4)),
        open_tensor(Q16S, (BATCH, UNITS), 2**-11),
        open_tensor(Q8A, (BATCH, UNITS), 1 / 128, 128),
    ]


def test_cell_state_and_output() -> None:
    assert level_of(OPERATION, inputs_of(), *OUTPUTS) == 3
    assert dimensions_of(OPERATION, inputs_of(), *OUTPUTS) == ((BATCH, UNITS), (BATCH, UNITS))


@pytest.mark.parametrize(
    ("index", "wrong", "message"),
    [
        (
            Quantized16bitLstmInput.INPUT,
            open_tensor(Q8A, (BATCH, INPUT), 1 / 64, 128),
            "input has scale and zero point",
        ),
        (Quantized16bitLstmInput.OUTPUT_STATE, open_tensor(Q8A, (BATCH, UNITS), 1 / 128, 127), "output state has"),
        (Quantized16bitLstmInput.CELL_STATE, open_tensor(Q16S, (BATCH, UNITS), 2**-12), "cell state has"),
        (
            Quantized16bitLstmInput.RECURRENT_TO_CELL_WEIGHTS,
            open_tensor(Q8A, (UNITS, UNITS), 0.005, 100),
            "input 7 has",
        ),
        (Quantized16bitLstmInput.CELL_BIAS, open_tensor(I32, (UNITS,), 1e-5), "bias 11 has scale"),
        (
            Quantized16bitLstmInput.CELL_BIAS,
            open_tensor(I32, (UNITS + 1,), 3.18766e-05),
            "input 11 makes the output size 5",
        ),
    ],
)
def test_other_quantisations_and_sizes_are_refused(index: Quantized16bitLstmInput, wrong: Given, message: str) -> None:
    inputs = inputs_of()
    inputs[index] = wrong
    with pytest.raises(HalError, match=message):
        dimensions_of(OPERATION, inputs, *OUTPUTS)


def test_the_outputs_quantisation_is_fixed() -> None:
    with pytest.raises(HalError, match="output 1 has scale"):
        dimensions_of(OPERATION, inputs_of(), OUTPUTS[0], output(Q8A, (0, 0), 1 / 256, 128))
