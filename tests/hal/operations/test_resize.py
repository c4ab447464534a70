from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output, scalar

RESIZE_NEAREST_NEIGHBOR_CODE = OperationType.RESIZE_NEAREST_NEIGHBOR


def test_the_layout_flag_is_not_optional() -> None:
    given = [open_tensor(F32, (1, 4, 4, 2)), *integers(5, 6)]
    with pytest.raises(HalError, match="got 3 inputs"):
        level_of(RESIZE_NEAREST_NEIGHBOR_CODE, given, output(F32, (1, 6, 5, 2)))
    assert level_of(RESIZE_NEAREST_NEIGHBOR_CODE, [*given, boolean(False)], output(F32, (1, 6, 5, 2))) == 3


def test_by_factors() -> None:
    given = [open_tensor(Q8AS, (1, 4, 5, 2), 0.5), scalar(FLOAT32, 1.5), scalar(FLOAT32, 0.7), boolean(False)]
    assert level_of(RESIZE_NEAREST_NEIGHBOR_CODE, given, output(Q8AS, (1, 2, 7, 2), 0.5)) == 4
    assert dimensions_of(RESIZE_NEAREST_NEIGHBOR_CODE, given, output(Q8AS, scale=0.5)) == ((1, 2, 7, 2),)


RESIZE_BILINEAR_CODE = OperationType.RESIZE_BILINEAR


def factors(width: float, height: float, code: OperandType = FLOAT32) -> list[Given]:
    return [scalar(code, width), scalar(code, height)]


@pytest.mark.parametrize(
    ("main", "size", "flags", "level"),
    [
        (F32, integers(5, 6), [], 1),
        (F32, integers(5, 6), [False], 3),
        (F32, factors(1.5, 2), [], 3),
        (F32, integers(5, 6), [False, True], 4),
        (F16, factors(1.5, 2, FLOAT16), [True, False, True], 4),
        (F16, integers(5, 6), [], 3),
        (Q8A, factors(1.5, 2), [], 3),
        (Q8AS, integers(5, 6), [], 4),
    ],
)
def test_what_each_form_needs(main: OperandType, size: list[Given], flags: list[bool], level: int) -> None:
    scale = 0.1 * (main in (Q8A, Q8AS))
    given = [open_tensor(main, (1, 4, 4, 2), scale), *size, *map(boolean, flags)]
    assert level_of(RESIZE_BILINEAR_CODE, given, output(main, (1, 6, 5, 2), scale)) == level


@pytest.mark.parametrize("size", [[*integers(5), scalar(FLOAT32, 2)], factors(1.5, 2, FLOAT16)])
def test_sizes_of_two_kinds_and_factors_of_another_type_are_refused(size: list[Given]) -> None:
    with pytest.raises(HalError, match="expected"):
        level_of(RESIZE_BILINEAR_CODE, [open_tensor(F32, (1, 4, 4, 2)), *size], output(F32, (1, 6, 5, 2)))


@pytest.mark.parametrize(
    ("size", "channels_first", "dimensions", "resized"),
    [
        (integers(5, 6), False, (0, 4, 0, 2), (0, 6, 5, 2)),
        (integers(5, 6), True, (1, 2, 4, 4), (1, 2, 6, 5)),
        (factors(1.5, 0.7), False, (1, 4, 5, 2), (1, 2, 7, 2)),
        (factors(1.5, 0.7), False, (1, 4, 0, 2), (1, 2, 0, 2)),
        (factors(0.9, 0.6), False, (1, 5, 10, 2), (1, 3, 9, 2)),
    ],
)
def test_width_comes_first_and_factors_round_down_in_float32(
    size: list[Given], channels_first: bool, dimensions: Dimensions, resized: Dimensions
) -> None:
    given = [open_tensor(F32, dimensions), *size, boolean(channels_first)]
    assert dimensions_of(RESIZE_BILINEAR_CODE, given, output(F32)) == (resized,)


@pytest.mark.parametrize("size", [integers(0, 6), factors(0, 1), factors(0.1, 1), factors(float("inf"), 1)])
def test_an_empty_or_endless_output_is_refused(size: list[Given]) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(RESIZE_BILINEAR_CODE, [open_tensor(F32, (1, 4, 4, 2)), *size], output(F32))


def test_corners_and_half_pixels_exclude_each_other() -> None:
    given = [open_tensor(F32, (1, 4, 4, 2)), *integers(5, 6), boolean(False), boolean(True), boolean(True)]
    with pytest.raises(HalError, match="both true"):
        dimensions_of(RESIZE_BILINEAR_CODE, given, output(F32))
