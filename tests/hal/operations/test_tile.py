from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, open_tensor, output, tensor


def test_dimensions_are_multiplied() -> None:
    inputs = [open_tensor(F32, (2, 0, 3)), tensor(I32, [3, 2, 0])]
    assert dimensions_of(OperationType.TILE, inputs, output(F32)) == ((6, 0, 0),)


@pytest.mark.parametrize("multiples", [[1], [1, -1]])
def test_multiples_that_do_not_fit_are_refused(multiples: list[int]) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(OperationType.TILE, [open_tensor(F32, (2, 3)), tensor(I32, multiples)], output(F32))
