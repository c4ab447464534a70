from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32
from nnhal.types import OperationType
from tests.support.operations import level_of, open_tensor, output, scalar


def test_alpha_has_the_tensor_s_precision() -> None:
    assert level_of(OperationType.ELU, [open_tensor(F16, (2,)), scalar(FLOAT16, 1)], output(F16, (2,))) == 4
    assert level_of(OperationType.ELU, [open_tensor(F32, (2,)), scalar(FLOAT32, 1)], output(F32, (2,))) == 4
    with pytest.raises(HalError, match=r"input 1 \(alpha\) is FLOAT32, expected FLOAT16"):
        level_of(OperationType.ELU, [open_tensor(F16, (2,)), scalar(FLOAT32, 1)], output(F16, (2,)))
