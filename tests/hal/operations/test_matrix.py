from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS
from nnhal.operations._types import F32, Q8A
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import (
    Given,
    boolean,
    context,
    dimensions_of,
    integers,
    level_of,
    open_tensor,
    output,
    tensor,
)

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


MATMUL = OperationType.BATCH_MATMUL


@pytest.mark.parametrize(
    ("first", "second", "flags", "expected"),
    [
        ((2, 3), (3, 4), (False, False), (2, 4)),
        ((3, 2), (4, 3), (True, True), (2, 4)),
        ((5, 0, 2, 3), (0, 6, 4, 3), (False, True), (5, 6, 2, 4)),
    ],
)
def test_rows_and_columns_after_transposing(
    first: Dimensions, second: Dimensions, flags: tuple[bool, bool], expected: Dimensions
) -> None:
    inputs = [open_tensor(F32, first), open_tensor(F32, second), *map(boolean, flags)]
    assert level_of(MATMUL, inputs, output(F32, expected)) == 6
    assert dimensions_of(MATMUL, inputs, output(F32)) == (expected,)


@pytest.mark.parametrize(
    ("first", "second"), [((2, 3), (4, 3)), ((1, 2, 3), (5, 3, 4)), ((2, 3), (1, 3, 4)), ((1, 1, 2, 3), (1, 3, 4))]
)
def test_matrices_that_do_not_fit_are_refused(first: Dimensions, second: Dimensions) -> None:
    with pytest.raises(HalError, match="cannot be multiplied"):
        dimensions_of(MATMUL, [open_tensor(F32, first), open_tensor(F32, second), *[boolean(False)] * 2], output(F32))


def test_unsigned_quantised_matrices_and_vectors_are_refused() -> None:
    flags = [boolean(False)] * 2
    with pytest.raises(HalError, match="TENSOR_QUANT8_ASYMM, expected"):
        level_of(MATMUL, [*[open_tensor(Q8A, (2, 2), 0.5)] * 2, *flags], output(Q8A, (2, 2), 0.5))
    with pytest.raises(HalError, match="rank 1, expected 2 to 4"):
        level_of(MATMUL, [*[open_tensor(F32, (2,))] * 2, *flags], output(F32))
    with pytest.raises(HalError, match="got 3 inputs, expected 4"):
        level_of(MATMUL, [*[open_tensor(F32, (2, 2))] * 2, flags[0]], output(F32))
