from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS, Q8S, Q16A, Q16S
from nnhal.types import OperandType, OperationType
from tests.support.operations import level_of, open_tensor, output

CAST = OperationType.CAST


@pytest.mark.parametrize("source", [F16, F32, I32, Q8A])
@pytest.mark.parametrize("target", [F16, F32, I32, Q8A])
def test_four_types_convert_to_each_other(source: OperandType, target: OperandType) -> None:
    assert level_of(CAST, [open_tensor(source, (2,), 0.5)], output(target, (2,), 0.25)) == 3


@pytest.mark.parametrize("code", [B8, Q8AS, Q8S, Q16A, Q16S])
def test_the_others_convert_to_themselves_only(code: OperandType) -> None:
    assert level_of(CAST, [open_tensor(code, (2,), 0.5)], output(code, (2,), 0.5)) == 4
    with pytest.raises(HalError, match="output 0 is TENSOR_FLOAT32"):
        level_of(CAST, [open_tensor(code, (2,), 0.5)], output(F32, (2,)))


def test_dimensions_that_contradict_are_refused_with_the_model() -> None:
    with pytest.raises(HalError, match=r"\[2, \?\] and \[3, 2\]"):
        level_of(CAST, [open_tensor(F32, (2, 0))], output(I32, (3, 2)))
