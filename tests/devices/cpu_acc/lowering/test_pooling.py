from __future__ import annotations

import pytest

from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.agreement import assert_single_agrees

_IMAGES = [(2, 7, 6, 4)]


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("operation", [OperationType.AVERAGE_POOL_2D, OperationType.MAX_POOL_2D])
@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("activation", [0, 3])
def test_padding_takes_no_part(
    activation: int, channels_first: bool, operation: OperationType, code: OperandType
) -> None:
    assert_single_agrees(operation, code, _IMAGES, [1, 2, 1, 3, 2, activation, channels_first])


@pytest.mark.parametrize("code", [F32, F16])
def test_roots_of_mean_squares(code: OperandType) -> None:
    assert_single_agrees(OperationType.L2_POOL_2D, code, _IMAGES, [1, 0, 1, 1, 2, 1, 3, 2, 0])
