from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, scalar_float
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, scalar, tensor

VALUES = np.random.default_rng(1).normal(size=(2, 3, 4, 5))


def expected(values: Array, radius: int) -> Array:
    """Along the last axis, with bias 9, alpha 4 and beta 0.5."""
    result = np.empty_like(values)
    for index in range(values.shape[-1]):
        window = values[..., max(0, index - radius) : index + radius + 1]
        result[..., index] = values[..., index] / (9 + 4 * (window**2).sum(-1)) ** 0.5
    return result


@pytest.mark.parametrize("main", [F16, F32])
@pytest.mark.parametrize("radius", [0, 1, 20])
@pytest.mark.parametrize("axis", [(), (3,), (-3,)])
def test_neighbours_within_the_radius_count(main: OperandType, radius: int, axis: tuple[int, ...]) -> None:
    number = scalar_float(main)
    inputs = [tensor(main, VALUES), *integers(radius), *(scalar(number, v) for v in (9, 4, 0.5)), *integers(*axis)]
    (result,) = compute(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, output(main))
    along = axis[0] if axis else -1
    wanted = np.moveaxis(expected(np.moveaxis(VALUES, along, -1), radius), -1, along)
    np.testing.assert_allclose(result, wanted, rtol=1e-5 if main == F32 else 5e-3, atol=1e-4)


def test_no_elements_give_none() -> None:
    inputs = [tensor(F32, np.zeros((2, 0))), *integers(2), *(scalar(scalar_float(F32), v) for v in (9, 4, 0.5))]
    (result,) = compute(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, output(F32))
    assert result.shape == (2, 0)
