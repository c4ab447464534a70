from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._window import SAME
from nnhal.types import OperandType, OperationType
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output

F32 = OperandType.TENSOR_FLOAT32
DEPTHWISE = OperationType.DEPTHWISE_CONV_2D


def inputs(filters: tuple[int, ...], multiplier: int) -> list[Given]:
    tensors = [open_tensor(F32, dimensions) for dimensions in ((1, 8, 8, 3), filters, (filters[3],))]
    return [*tensors, *integers(SAME, 2, 2, multiplier, 0)]


def test_channels_are_multiplied() -> None:
    assert dimensions_of(DEPTHWISE, inputs((1, 3, 3, 6), 2), output(F32)) == ((1, 4, 4, 6),)


def test_eleven_inputs_are_implicit_with_a_layout_and_explicit_without() -> None:
    out = output(F32, (1, 4, 4, 3))
    implicit = [*inputs((1, 3, 3, 3), 1), boolean(False), *integers(1, 1)]
    explicit = [*implicit[:3], *integers(1, 1, 1, 1, 2, 2, 1, 0)]
    assert (len(implicit), level_of(DEPTHWISE, implicit, out)) == (11, 3)
    assert (len(explicit), level_of(DEPTHWISE, explicit, out)) == (11, 1)


@pytest.mark.parametrize(
    ("filters", "multiplier", "complaint"),
    [
        ((2, 3, 3, 3), 1, "first axis is 2, expected 1"),
        ((1, 3, 3, 6), 1, "6 channels, expected 3 x multiplier 1"),
        ((1, 3, 3, 3), 0, "depth multiplier 0"),
    ],
)
def test_filters_that_do_not_fit_are_refused(filters: tuple[int, ...], multiplier: int, complaint: str) -> None:
    with pytest.raises(HalError, match=complaint):
        dimensions_of(DEPTHWISE, inputs(filters, multiplier), output(F32))
