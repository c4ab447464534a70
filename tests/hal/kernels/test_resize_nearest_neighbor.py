from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, FLOAT32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, boolean, integers, output, scalar, tensor

CODE = OperationType.RESIZE_NEAREST_NEIGHBOR


def resized(values: Any, size: list[Given], *flags: bool, code: OperandType = F32, scale: float = 0.0) -> Array:
    inputs = [tensor(code, values, scale), *size, *map(boolean, flags)]
    (result,) = compute(CODE, inputs, output(code, scale=scale))
    return result


def row(*values: float) -> Array:
    return np.array(values).reshape(1, 1, -1, 1)


@pytest.mark.parametrize(
    ("flags", "count", "expected"),
    [
        ((False,), 3, [1, 2, 3]),
        ((False,), 8, [1, 1, 2, 2, 3, 3, 4, 4]),
        ((False, True), 3, [1, 3, 4]),
        ((False, True), 1, [1]),
        ((False, False, True), 3, [1, 3, 4]),
        ((False, False, True), 1, [3]),
    ],
)
def test_where_the_pixels_lie(flags: tuple[bool, ...], count: int, expected: list[float]) -> None:
    assert resized(row(1, 2, 3, 4), integers(count, 1), *flags).reshape(-1).tolist() == expected


@pytest.mark.parametrize("code", [F16, F32, Q8A, Q8AS])
def test_all_types_by_factors_in_either_layout(code: OperandType) -> None:
    values = np.random.default_rng(1).integers(0, 100, (2, 3, 4, 5))
    factors = [scalar(OperandType.FLOAT16 if code == F16 else FLOAT32, factor) for factor in (1.5, 0.7)]
    scale = 0.5 * (code in (Q8A, Q8AS))
    last = resized(values, factors, False, code=code, scale=scale)
    first = resized(values.transpose(0, 3, 1, 2), factors, True, code=code, scale=scale)
    np.testing.assert_array_equal(last, values[:, [0, 1]][:, :, [0, 0, 1, 2, 2, 3]])
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
