from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, FLOAT32, Q8AS
from nnhal.types import OperationType
from tests.support.operations import boolean, dimensions_of, integers, level_of, open_tensor, output, scalar

CODE = OperationType.RESIZE_NEAREST_NEIGHBOR


def test_the_layout_flag_is_not_optional() -> None:
    given = [open_tensor(F32, (1, 4, 4, 2)), *integers(5, 6)]
    with pytest.raises(HalError, match="got 3 inputs"):
        level_of(CODE, given, output(F32, (1, 6, 5, 2)))
    assert level_of(CODE, [*given, boolean(False)], output(F32, (1, 6, 5, 2))) == 3


def test_by_factors() -> None:
    given = [open_tensor(Q8AS, (1, 4, 5, 2), 0.5), scalar(FLOAT32, 1.5), scalar(FLOAT32, 0.7), boolean(False)]
    assert level_of(CODE, given, output(Q8AS, (1, 2, 7, 2), 0.5)) == 4
    assert dimensions_of(CODE, given, output(Q8AS, scale=0.5)) == ((1, 2, 7, 2),)
