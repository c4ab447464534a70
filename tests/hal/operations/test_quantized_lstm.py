from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import FLOAT32, I32, INT32, Q8AS, Q8S, Q16S
from nnhal.operations.lstm import QuantizedLstmInput
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, absent, dimensions_of, level_of, open_tensor, output, scalar

OPERATION = OperationType.QUANTIZED_LSTM
BATCH, INPUT, UNITS = 2, 5, 4
CELL_SCALE = 2.0**-12
OUTPUTS = [output(Q8AS, (0, 0), 1 / 128), output(Q16S, (0, 0), CELL_SCALE), output(Q8AS, (0, 0), 1 / 128)]


def inputs_of(cell_scale: float = CELL_SCALE, hidden: tuple[int, float] = (0, 1 / 128)) -> list[Given]:
    def four(*dimensions: int) -> list[Given]:
        return [open_tensor(Q8S, dimensions, 0.01) for _ in range(4)]

    return [
        open_tensor(Q8AS, (BATCH, INPUT), 0.01),
        *four(UNITS, INPUT),
        *four(UNITS, UNITS),
        *(absent(Q16S) for _ in range(3)),
        *(open_tensor(I32, (UNITS,)) for _ in range(4)),
        absent(Q8S),
        absent(I32),
        open_tensor(Q8AS, (BATCH, UNITS), 1 / 128),
        open_tensor(Q16S, (BATCH, UNITS), cell_scale),
        *(absent(Q16S) for _ in range(4)),
        *(scalar(FLOAT32, 0) for _ in range(6)),
        scalar(INT32, hidden[0]),
        scalar(FLOAT32, hidden[1]),
    ]


def test_states_and_output() -> None:
    expected: tuple[Dimensions, ...] = ((BATCH, UNITS),) * 3
    assert level_of(OPERATION, inputs_of(), *OUTPUTS) == 4
    assert dimensions_of(OPERATION, inputs_of(), *OUTPUTS) == expected


@pytest.mark.parametrize("scale", [3.05176e-05, 2.0**-9])
def test_the_cell_states_scale_is_a_power_of_two_to_a_few_decimals(scale: float) -> None:
    assert dimensions_of(OPERATION, inputs_of(scale), *OUTPUTS)


@pytest.mark.parametrize("scale", [2.0**-8, 2.0**-16, 0.0003])
def test_other_scales_of_the_cell_state_are_refused(scale: float) -> None:
    with pytest.raises(HalError, match="expected a power of two"):
        dimensions_of(OPERATION, inputs_of(scale), *OUTPUTS)


@pytest.mark.parametrize(
    ("hidden", "message"), [((128, 0.01), "zero point 128"), ((0, 0.0), "input 31 is the scale 0.0")]
)
def test_the_hidden_states_quantisation_is_one(hidden: tuple[int, float], message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(OPERATION, inputs_of(hidden=hidden), *OUTPUTS)


def test_intermediate_scales_matter_only_with_layer_normalisation() -> None:
    inputs = inputs_of()
    for index in range(QuantizedLstmInput.INPUT_LAYER_NORM_WEIGHTS, QuantizedLstmInput.CELL_CLIP):
        inputs[index] = open_tensor(Q16S, (UNITS,), 0.001)
    with pytest.raises(HalError, match=r"input 26 is the scale 0\.0"):
        dimensions_of(OPERATION, inputs, *OUTPUTS)
