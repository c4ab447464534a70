from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import B8, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import boolean, dimensions_of, level_of, open_tensor, output, tensor

SUM = OperationType.REDUCE_SUM


@pytest.mark.parametrize(
    ("axes", "keep", "expected"),
    [
        ([1], False, (2, 0)),
        ([-2, 1], True, (2, 1, 0)),
        ([0, 1, -1], False, (1,)),
        ([0, 1, 2], True, (1, 1, 1)),
    ],
)
def test_axes_disappear_or_become_1(axes: list[int], keep: bool, expected: Dimensions) -> None:
    assert dimensions_of(SUM, [open_tensor(F32, (2, 3, 0)), tensor(I32, axes), boolean(keep)], output(F32)) == (
        expected,
    )


def test_an_axis_outside_the_tensor_is_refused() -> None:
    with pytest.raises(HalError, match=r"axis -4, expected -3 to 2"):
        dimensions_of(SUM, [open_tensor(F32, (2, 3, 4)), tensor(I32, [-4]), boolean(False)], output(F32))


def test_axes_that_are_no_constant_are_asked_again() -> None:
    with pytest.raises(UnknownYet):
        dimensions_of(SUM, [open_tensor(F32, (2, 3)), open_tensor(I32, (1,)), boolean(False)], output(F32))


def test_types_follow_the_function() -> None:
    def level(code: OperationType, main: OperandType, scale: float = 0.0) -> int:
        inputs = [open_tensor(main, (2, 3), scale), tensor(I32, [0]), boolean(False)]
        return level_of(code, inputs, output(main, (3,), scale))

    assert level(OperationType.REDUCE_ALL, B8) == 3
    assert level(OperationType.REDUCE_MAX, Q8AS, 0.5) == 4
    for code, main, scale in ((SUM, Q8A, 0.5), (OperationType.REDUCE_ANY, F32, 0.0)):
        with pytest.raises(HalError, match="expected"):
            level(code, main, scale)


def test_the_output_keeps_the_quantisation() -> None:
    inputs = [open_tensor(Q8A, (2, 3), 0.5, 9), tensor(I32, [0]), boolean(False)]
    with pytest.raises(HalError, match=r"zero point 8, expected 0.5 and 9"):
        dimensions_of(OperationType.REDUCE_MAX, inputs, output(Q8A, scale=0.5, zero_point=8))
