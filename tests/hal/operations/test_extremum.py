from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import B8, F32, Q8AS
from nnhal.types import OperationType
from tests.support.operations import level_of, open_tensor, output


def test_each_tensor_has_its_own_quantisation() -> None:
    inputs = [open_tensor(Q8AS, (2,), 0.5, 1), open_tensor(Q8AS, (1,), 0.25)]
    assert level_of(OperationType.MAXIMUM, inputs, output(Q8AS, (2,), 2.0, 3)) == 4


def test_booleans_have_no_extremum() -> None:
    with pytest.raises(HalError, match="TENSOR_BOOL8, expected"):
        level_of(OperationType.MINIMUM, [open_tensor(B8, (2,)), open_tensor(B8, (2,))], output(F32))
