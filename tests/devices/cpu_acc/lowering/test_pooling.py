from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import Q8A, Q8AS
from nnhal.resolved import propagate_dimensions
from nnhal.types import OperandType, OperationType
from nnhal_devices.cpu_acc.lowered import lower
from nnhal_devices.cpu_ref.driver import CpuRef
from tests.support.agreement import assert_agrees, random, single
from tests.support.models import run_on


@pytest.mark.parametrize("code", [Q8A, Q8AS])
@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize(("width", "height"), [(2, 2), (3, 3), (3, 2), (5, 4)])
@pytest.mark.parametrize("activation", [0, 3])
def test_means_of_bytes_without_padding_are_convolved(
    activation: int, width: int, height: int, channels_first: bool, code: OperandType
) -> None:
    shape = (2, 5, 9, 8) if channels_first else (2, 9, 8, 5)
    model = single(OperationType.AVERAGE_POOL_2D, code, [shape], [2, 1, 2, width, height, activation, channels_first])
    assert "Conv" in [node.type for node in lower(model, propagate_dimensions(model)).nodes]
    values = random(code, shape)
    (got,) = assert_agrees(model, values)
    if code == Q8A:  # ties too
        np.testing.assert_array_equal(got, run_on(CpuRef(), model, values)[0])


@pytest.mark.parametrize("code", [Q8A, Q8AS])
def test_extreme_bytes_have_their_means(code: OperandType) -> None:
    model = single(OperationType.AVERAGE_POOL_2D, code, [(1, 6, 6, 3)], [2, 1, 1, 5, 5, 0])
    for byte in (0, 255):
        values = np.full((1, 6, 6, 3), byte, np.uint8).view(random(code, (1,)).dtype)
        (got,) = assert_agrees(model, values)
        assert (got == values[:, :2, :2]).all()
