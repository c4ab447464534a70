from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._window import SAME
from nnhal.types import OperandType, OperationType
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output

F32 = OperandType.TENSOR_FLOAT32
GROUPED = OperationType.GROUPED_CONV_2D


def inputs(channels: int, groups: int) -> list[Given]:
    tensors = [open_tensor(F32, dimensions) for dimensions in ((1, 4, 4, channels), (6, 3, 3, 2), (6,))]
    return [*tensors, *integers(SAME, 1, 1, groups, 0), boolean(False)]


def test_output_channels_are_those_of_the_filter() -> None:
    assert dimensions_of(GROUPED, inputs(4, 2), output(F32)) == ((1, 4, 4, 6),)


def test_the_layout_must_be_given() -> None:
    with pytest.raises(HalError, match="got 8 inputs, expected 9"):
        level_of(GROUPED, inputs(4, 2)[:-1], output(F32))


@pytest.mark.parametrize(
    ("channels", "groups", "complaint"),
    [
        (5, 2, "expected 2 groups of 2"),
        (8, 4, "expected a multiple of 4, the number of groups"),
        (4, 0, "number of groups 0"),
    ],
)
def test_groups_that_do_not_divide_are_refused(channels: int, groups: int, complaint: str) -> None:
    with pytest.raises(HalError, match=complaint):
        dimensions_of(GROUPED, inputs(channels, groups), output(F32))
