from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32, I32, INT32
from nnhal.types import OperandType, OperationType
from tests.support.operations import dimensions_of, integers, level_of, open_tensor, output, scalar, tensor

FILL = OperationType.FILL


@pytest.mark.parametrize(("code", "value"), [(F16, FLOAT16), (F32, FLOAT32), (I32, INT32)])
def test_the_value_s_type_follows_the_output_s(code: OperandType, value: OperandType) -> None:
    assert level_of(FILL, [tensor(I32, [2, 3]), scalar(value, 1)], output(code, (2, 3))) == 4
    other = INT32 if value == FLOAT32 else FLOAT32
    with pytest.raises(HalError, match=f"is {other.name}, expected {value.name}"):
        level_of(FILL, [tensor(I32, [2, 3]), scalar(other, 1)], output(code, (2, 3)))


def test_dimensions_are_known_with_their_values() -> None:
    assert dimensions_of(FILL, [tensor(I32, [2, 0]), scalar(FLOAT32, 1)], output(F32)) == ((2, 0),)
    with pytest.raises(UnknownYet):
        dimensions_of(FILL, [open_tensor(I32, (2,)), scalar(FLOAT32, 1)], output(F32))
    with pytest.raises(HalError, match="expected at least one, each 0 or more"):
        dimensions_of(FILL, [tensor(I32, [2, -1]), scalar(FLOAT32, 1)], output(F32))


MULTINOMIAL = OperationType.RANDOM_MULTINOMIAL
SEEDS = tensor(I32, [1, 2])


def test_a_row_of_samples_for_each_row_of_logits() -> None:
    inputs = [open_tensor(F16, (0, 5)), *integers(7), open_tensor(I32, ())]
    assert level_of(MULTINOMIAL, inputs, output(I32, (3, 7))) == 3
    assert dimensions_of(MULTINOMIAL, inputs, output(I32)) == ((0, 7),)


def test_samples_and_seeds_that_do_not_fit_are_refused() -> None:
    logits = open_tensor(F16, (3, 5))
    with pytest.raises(HalError, match="0 samples"):
        dimensions_of(MULTINOMIAL, [logits, *integers(0), SEEDS], output(I32))
    with pytest.raises(HalError, match=r"input 2 has dimensions \[3\], expected \[2\]"):
        dimensions_of(MULTINOMIAL, [logits, *integers(1), tensor(I32, [1, 2, 3])], output(I32))
