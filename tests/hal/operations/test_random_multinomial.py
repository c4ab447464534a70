from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, I32
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, integers, level_of, open_tensor, output, tensor

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
