from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import B8, I32
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, level_of, open_tensor, output


@pytest.mark.parametrize("code", [OperationType.LOGICAL_AND, OperationType.LOGICAL_OR])
def test_booleans_broadcast_and_nothing_else_is_taken(code: OperationType) -> None:
    assert dimensions_of(code, [open_tensor(B8, (2, 1)), open_tensor(B8, (3,))], output(B8)) == ((2, 3),)
    with pytest.raises(HalError, match="TENSOR_INT32, expected TENSOR_BOOL8"):
        level_of(code, [open_tensor(I32, (2,)), open_tensor(I32, (2,))], output(B8))
