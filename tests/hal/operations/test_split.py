from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, INT32, Q8A
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, integers, level_of, open_tensor, output

SPLIT = OperationType.SPLIT


def test_every_output_is_an_equal_part() -> None:
    inputs = [open_tensor(F32, (0, 6)), *integers(-1, 3)]
    assert level_of(SPLIT, inputs, *[output(F32, (2, 2))] * 3) == 3
    assert dimensions_of(SPLIT, inputs, *[output(F32)] * 3) == ((0, 2),) * 3


def test_the_number_of_outputs_is_compared_only_when_prepared() -> None:
    inputs = [open_tensor(F32, (2, 6)), *integers(1, 3)]
    assert level_of(SPLIT, inputs, *[output(F32, (2, 2))] * 2) == 3
    with pytest.raises(HalError, match="3 splits and 2 outputs"):
        dimensions_of(SPLIT, inputs, *[output(F32)] * 2)


def test_parts_that_are_not_equal_are_refused() -> None:
    with pytest.raises(HalError, match="axis 0 has 5 elements, expected a multiple of 2"):
        dimensions_of(SPLIT, [open_tensor(F32, (5,)), *integers(0, 2)], *[output(F32)] * 2)


def test_every_output_has_the_input_s_type_and_quantisation() -> None:
    inputs = [open_tensor(Q8A, (4,), 0.5), *integers(0, 2)]
    with pytest.raises(HalError, match=r"output 1 has scale 0.25"):
        dimensions_of(SPLIT, inputs, output(Q8A, (2,), 0.5), output(Q8A, (2,), 0.25))
    with pytest.raises(HalError, match="output 1 is INT32"):
        level_of(SPLIT, inputs, output(Q8A, (2,), 0.5), output(INT32))
