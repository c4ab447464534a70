"""Operations that copy elements, for each type that the graph keeps: nothing may change on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.support import Unsupported
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import DriverOptions
from tests.support.agreement import assert_agrees, assert_single_agrees, like, random, single

_IMAGES = (2, 4, 6, 8)
_T = OperationType
_CASES: list[tuple[OperationType, Dimensions, Sequence[Any]]] = [
    (_T.CHANNEL_SHUFFLE, _IMAGES, [4, -1]),
    (_T.CHANNEL_SHUFFLE, (3, 6), [3, 1]),
    (_T.DEPTH_TO_SPACE, _IMAGES, [2]),
    (_T.DEPTH_TO_SPACE, (2, 8, 3, 5), [2, True]),
    (_T.EXPAND_DIMS, (3, 4), [-1]),
    (_T.EXPAND_DIMS, (3, 4), [0]),
    (_T.BATCH_TO_SPACE_ND, (12, 3, 2, 5), [[2, 3]]),
    (_T.BATCH_TO_SPACE_ND, (4, 3, 2, 5), [[2, 2], True]),
    (_T.GATHER, (3, 4, 5), [1, [[3, 0], [1, 1]]]),
    (_T.MIRROR_PAD, _IMAGES, [[[0, 1], [3, 0], [1, 2], [0, 0]], 0]),
    (_T.PAD, _IMAGES, [[[0, 1], [3, 0], [1, 2], [0, 0]]]),
    (_T.RESHAPE, _IMAGES, [[4, -1, 3]]),
    (_T.RESIZE_NEAREST_NEIGHBOR, _IMAGES, [9, 5, False]),
    (_T.RESIZE_NEAREST_NEIGHBOR, _IMAGES, [3, 9, True, True, False]),
    (_T.RESIZE_NEAREST_NEIGHBOR, _IMAGES, [13, 8, False, False, True]),
    (_T.REVERSE, (3, 4, 5), [[1]]),
    (_T.SLICE, (3, 4, 5), [[1, 0, 2], [2, -1, 3]]),
    (_T.SPACE_TO_BATCH_ND, _IMAGES, [[2, 3], [[1, 1], [0, 3]]]),
    (_T.SPACE_TO_BATCH_ND, (2, 3, 4, 6), [[2, 3], [[0, 0], [0, 0]], True]),
    (_T.SPACE_TO_DEPTH, _IMAGES, [2]),
    (_T.SPACE_TO_DEPTH, (2, 3, 4, 6), [2, True]),
    (_T.SQUEEZE, (1, 3, 1, 4), [[2]]),
    (_T.SQUEEZE, (1, 1), [[0, 1]]),
    (_T.STRIDED_SLICE, (5, 4, 6), [[-1, 0, 1], [-6, 3, 2], [-2, 2, 1], 0, 2, 4]),
    (_T.STRIDED_SLICE, (5, 4), [[2, 1], [3, 2], [1, 1], 0, 0, 3]),
    (_T.TILE, (2, 3), [[2, 3]]),
    (_T.TRANSPOSE, (2, 3, 4, 5), [[0, 3, 1, 2]]),
    (_T.TRANSPOSE, (2, 3, 4, 5), [[0, 2, 3, 1]]),
    (_T.TRANSPOSE, (2, 3, 4, 5), [[3, 1, 0, 2]]),
]
_NEEDING_SIZE = (_T.RESIZE_NEAREST_NEIGHBOR,)
"""Those that lengths other than the batch must be known for."""
_ALSO_INTEGERS = {_T.EXPAND_DIMS, _T.GATHER, _T.MIRROR_PAD, _T.RESHAPE, _T.REVERSE, _T.SLICE, _T.TILE}


@pytest.mark.parametrize("code", [F32, F16, I32, Q8A, Q8AS])
@pytest.mark.parametrize(("operation", "dimensions", "parameters"), _CASES)
def test_elements_move(
    operation: OperationType,
    dimensions: Dimensions,
    parameters: Sequence[Any],
    code: OperandType,
) -> None:
    if code != I32 or operation in _ALSO_INTEGERS:
        assert_single_agrees(operation, code, [dimensions], parameters)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize(("operation", "dimensions", "parameters"), _CASES)
def test_elements_move_along_an_open_axis(
    operation: OperationType, dimensions: Dimensions, parameters: Sequence[Any], axis: int
) -> None:
    opened = tuple(0 if number == axis else length for number, length in enumerate(dimensions))
    model = single(operation, F32, [opened], parameters)
    answers = CpuAcc(DriverOptions()).supported_operations(model)
    if operation in _NEEDING_SIZE and axis:
        assert [answer.code for answer in answers if isinstance(answer, Unsupported)] == ["DYN_SHAPE"]
    else:
        assert_agrees(model, random(F32, dimensions))


@pytest.mark.parametrize("code", [F32, F16, I32, Q8A, Q8AS])
def test_parts_of_a_tensor(code: OperandType) -> None:
    assert_single_agrees(_T.SPLIT, code, [(2, 6, 3)], [1, 3], *[like(code)] * 3)


@pytest.mark.parametrize(("code", "value"), [(F32, 1.5), (F16, -2.0), (Q8A, 200), (Q8AS, -100)])
def test_a_given_value_surrounds(code: OperandType, value: float) -> None:
    (result,) = assert_single_agrees(OperationType.PAD_V2, code, [(2, 3)], [[[1, 0], [0, 2]], value])
    assert result[0, 0] == value
