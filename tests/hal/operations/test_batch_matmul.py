from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, Q8A
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import boolean, dimensions_of, level_of, open_tensor, output

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
