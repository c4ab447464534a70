from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import B8, F32
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import dimensions_of, level_of, open_tensor, output

SELECT = OperationType.SELECT


def test_what_is_known_of_three_inputs_is_put_together() -> None:
    inputs = [open_tensor(B8, (0, 3)), open_tensor(F32, ()), open_tensor(F32, (2, 0))]
    assert level_of(SELECT, inputs, output(F32, (2, 3))) == 3
    assert dimensions_of(SELECT, inputs, output(F32)) == ((2, 3),)


@pytest.mark.parametrize("mask", [(1, 3), (3,), (2, 2)])
def test_nothing_broadcasts(mask: Dimensions) -> None:
    with pytest.raises(HalError, match="expected equal dimensions"):
        dimensions_of(SELECT, [open_tensor(B8, mask), *[open_tensor(F32, (2, 3))] * 2], output(F32))


def test_unknown_ranks_are_asked_again() -> None:
    with pytest.raises(UnknownYet):
        dimensions_of(SELECT, [open_tensor(B8, ()), *[open_tensor(F32, ())] * 2], output(F32))
