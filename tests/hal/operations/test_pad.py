from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.types import OperandType, OperationType
from tests.support.operations import dimensions_of, level_of, open_tensor, output, scalar, tensor

F32 = OperandType.TENSOR_FLOAT32
F16 = OperandType.TENSOR_FLOAT16
Q8A = OperandType.TENSOR_QUANT8_ASYMM
PADDINGS = tensor(OperandType.TENSOR_INT32, [[1, 2], [0, 3]])


def test_paddings_are_added_to_known_axes() -> None:
    inputs = [open_tensor(F32, (4, 0)), PADDINGS]
    assert dimensions_of(OperationType.PAD, inputs, output(F32)) == ((7, 0),)


def test_a_zero_point_needs_level_3() -> None:
    for zero_point, level in ((0, 2), (7, 3)):
        out = output(Q8A, (7, 7), 0.5, zero_point)
        assert level_of(OperationType.PAD, [open_tensor(Q8A, (4, 4), 0.5, zero_point), PADDINGS], out) == level


@pytest.mark.parametrize("paddings", [[[1, 2]], [[1, 2], [0, -1]], [[1, 2, 3], [1, 2, 3]]])
def test_paddings_that_do_not_fit_are_refused(paddings: list[list[int]]) -> None:
    inputs = [open_tensor(F32, (4, 4)), tensor(OperandType.TENSOR_INT32, paddings)]
    with pytest.raises(HalError, match="paddings"):
        dimensions_of(OperationType.PAD, inputs, output(F32))


def test_the_value_has_the_tensor_s_precision() -> None:
    out = output(F16, (7, 7))
    assert (
        level_of(OperationType.PAD_V2, [open_tensor(F16, (4, 4)), PADDINGS, scalar(OperandType.FLOAT16, 1)], out) == 3
    )
    with pytest.raises(HalError, match="FLOAT32, expected FLOAT16"):
        level_of(OperationType.PAD_V2, [open_tensor(F16, (4, 4)), PADDINGS, scalar(OperandType.FLOAT32, 1)], out)


def test_a_quantised_value_out_of_range_is_refused() -> None:
    inputs = [open_tensor(Q8A, (4, 4), 0.5), PADDINGS, scalar(OperandType.INT32, 256)]
    with pytest.raises(HalError, match="value is 256, expected 0 to 255"):
        dimensions_of(OperationType.PAD_V2, inputs, output(Q8A, scale=0.5))
