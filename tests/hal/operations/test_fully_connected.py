from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS
from nnhal.types import OperandType, OperationType
from tests.support.operations import Given, context, dimensions_of, integers, level_of, open_tensor, output, tensor

F32 = OperandType.TENSOR_FLOAT32
FULLY = OperationType.FULLY_CONNECTED


def inputs(*dimensions: tuple[int, ...]) -> list[Given]:
    return [*(open_tensor(F32, d) for d in dimensions), *integers(0)]


def test_images_are_flattened_to_rows() -> None:
    assert dimensions_of(FULLY, inputs((2, 1, 2, 3), (5, 4), (5,)), output(F32)) == ((3, 5),)


@pytest.mark.parametrize("unknown", [((0, 4), (5, 4), (5,)), ((2, 4), (0, 0), (5,)), ((2, 4), (5, 0), (0,))])
def test_an_unknown_axis_leaves_the_batch_open(unknown: tuple[tuple[int, ...], ...]) -> None:
    assert level_of(FULLY, inputs(*unknown), output(F32, (0, 0))) == 1
    assert dimensions_of(FULLY, inputs(*unknown), output(F32)) == ((0, 5),)


@pytest.mark.parametrize(
    ("dimensions", "complaint"),
    [
        (((2, 3), (5, 4), (5,)), "a multiple of 4 elements"),
        (((2, 4), (5, 4), (4,)), "bias has 4 elements, expected 5"),
        (((4,), (5, 4), (5,)), "rank 1, expected 2 to 4"),
    ],
)
def test_dimensions_belong_to_the_validity_of_a_model(dimensions: tuple[tuple[int, ...], ...], complaint: str) -> None:
    with pytest.raises(HalError, match=complaint):
        level_of(FULLY, inputs(*dimensions), output(F32, (0, 0)))


def test_an_empty_batch_stays_empty() -> None:
    given = [tensor(F32, np.zeros(d)) for d in ((0, 4), (5, 4), (5,))]
    op = context(FULLY, [*given, *integers(0)], [output(F32)], executing=True)
    assert DEFINITIONS[FULLY].prepare(op) == ((0, 5),)
