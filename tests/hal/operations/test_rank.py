from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32, INT32, Q16S
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, level_of, open_tensor, output


def test_any_tensor_has_a_rank_which_is_a_scalar() -> None:
    inputs = [open_tensor(Q16S, (2, 3), 0.5)]
    assert level_of(OperationType.RANK, inputs, output(INT32)) == 4
    assert dimensions_of(OperationType.RANK, inputs, output(INT32)) == ((),)


def test_scalars_have_none_and_no_tensor_comes_out() -> None:
    with pytest.raises(HalError, match="INT32, expected TENSOR_BOOL8"):
        level_of(OperationType.RANK, [open_tensor(INT32, ())], output(INT32))
    with pytest.raises(HalError, match="TENSOR_INT32, expected INT32"):
        level_of(OperationType.RANK, [open_tensor(F32, (2,))], output(I32, (1,)))
