from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, dimensions_of, integers, level_of, open_tensor, output, scalar

L2 = OperationType.L2_NORMALIZATION


@pytest.mark.parametrize(
    ("dimensions", "axis", "level"), [((1, 2, 3, 4), (), 1), ((1, 2, 3, 4), (0,), 3), ((3, 4), (), 3)]
)
def test_l2_normalization_an_axis_and_lower_ranks_need_level_3(
    dimensions: Dimensions, axis: tuple[int, ...], level: int
) -> None:
    assert level_of(L2, [open_tensor(F32, dimensions), *integers(*axis)], output(F32, dimensions)) == level


def test_a_quantised_output_spans_minus_1_to_1() -> None:
    assert dimensions_of(L2, [open_tensor(Q8AS, (3,), 0.5)], output(Q8AS, (3,), 1 / 128)) == ((3,),)
    with pytest.raises(HalError, match=r"zero point 0, expected 0.0078125 and 128"):
        dimensions_of(L2, [open_tensor(Q8A, (3,), 0.5)], output(Q8A, (3,), 1 / 128))


def test_an_axis_outside_the_tensor_is_refused() -> None:
    with pytest.raises(HalError, match="axis 2"):
        dimensions_of(L2, [open_tensor(F32, (3, 4)), *integers(2)], output(F32))


LRN = OperationType.LOCAL_RESPONSE_NORMALIZATION


def given(main: Given, number: OperandType, radius: int = 2) -> list[Given]:
    return [main, *integers(radius), *[scalar(number, 0.5)] * 3]


def test_local_response_normalization_an_axis_and_lower_ranks_need_level_3() -> None:
    images = open_tensor(F32, (1, 2, 3, 4))
    assert level_of(LRN, given(images, FLOAT32), output(F32, (1, 2, 3, 4))) == 1
    assert level_of(LRN, [*given(images, FLOAT32), *integers(-4)], output(F32, (1, 2, 3, 4))) == 3
    assert level_of(LRN, given(open_tensor(F32, (3, 4)), FLOAT32), output(F32, (3, 4))) == 3


def test_parameters_have_the_tensor_s_precision_and_the_radius_is_not_negative() -> None:
    with pytest.raises(HalError, match=r"input 2 \(bias\) is FLOAT32, expected FLOAT16"):
        level_of(LRN, given(open_tensor(F16, (3, 4)), FLOAT32), output(F16))
    with pytest.raises(HalError, match="radius -1"):
        dimensions_of(LRN, given(open_tensor(F16, (3, 4)), FLOAT16, radius=-1), output(F16))
