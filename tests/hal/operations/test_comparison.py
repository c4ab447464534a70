from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import B8, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, level_of, open_tensor, output


def test_inputs_of_one_type_broadcast_to_booleans() -> None:
    inputs = [open_tensor(I32, (2, 1, 0)), open_tensor(I32, (3, 1))]
    assert level_of(OperationType.LESS, inputs, output(B8, (2, 3, 4))) == 3
    assert dimensions_of(OperationType.LESS, inputs, output(B8)) == ((2, 3, 0),)


def test_signed_quantised_inputs_may_differ_in_quantisation() -> None:
    inputs = [open_tensor(Q8AS, (2,), 0.5, 1), open_tensor(Q8AS, (2,), 0.25, -7)]
    assert level_of(OperationType.EQUAL, inputs, output(B8, (2,))) == 4


def test_mixed_types_and_other_outputs_are_refused() -> None:
    with pytest.raises(HalError, match=r"input 1 \(second\) is TENSOR_QUANT8_ASYMM, expected TENSOR_FLOAT32"):
        level_of(OperationType.GREATER, [open_tensor(F32, (2,)), open_tensor(Q8A, (2,), 1)], output(B8))
    with pytest.raises(HalError, match="output 0 is TENSOR_FLOAT32, expected TENSOR_BOOL8"):
        level_of(OperationType.GREATER, [open_tensor(F32, (2,)), open_tensor(F32, (2,))], output(F32))
