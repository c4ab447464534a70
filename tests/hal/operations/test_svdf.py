from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, absent, dimensions_of, integers, level_of, open_tensor, output

SVDF = OperationType.SVDF
BATCH, INPUT, FILTERS, MEMORY = 2, 3, 6, 5


def inputs_of(rank: int, bias: Dimensions = (), state: Dimensions = (BATCH, MEMORY * FILTERS)) -> list[Given]:
    return [
        open_tensor(F32, (BATCH, INPUT)),
        open_tensor(F32, (FILTERS, INPUT)),
        open_tensor(F32, (FILTERS, MEMORY)),
        open_tensor(F32, bias) if bias else absent(F32),
        open_tensor(F32, state),
        *integers(rank, 0),
    ]


@pytest.mark.parametrize("bias", [(), (3,)])
def test_state_and_output(bias: Dimensions) -> None:
    inputs = inputs_of(2, bias)
    assert level_of(SVDF, inputs, output(F32, (0, 0)), output(F32, (0, 0))) == 1
    assert dimensions_of(SVDF, inputs, output(F32), output(F32)) == ((BATCH, MEMORY * FILTERS), (BATCH, 3))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (inputs_of(4), "got 6 filters, expected a multiple of 4"),
        (inputs_of(0), "rank 0, expected 1 or more"),
        (inputs_of(2, (6,)), "the units 6, expected 3"),
        (inputs_of(2, (), (BATCH, (MEMORY - 1) * FILTERS)), "the state size 30, expected 24"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Given], message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(SVDF, inputs, output(F32), output(F32))
