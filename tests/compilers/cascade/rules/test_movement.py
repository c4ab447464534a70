from __future__ import annotations

from nnhal.operations.operand_types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from tests.support.agreement import single
from tests.support.ethos_u import assert_limit


def test_slices_ascend() -> None:
    def cut(begin: int, end: int, stride: int) -> ResolvedModel:
        parameters = [[0, begin], [4, end], [1, stride], 0, 0, 0]
        return single(OperationType.STRIDED_SLICE, Q8A, [(4, 8)], parameters)

    assert_limit(cut(0, 8, 2), cut(7, 0, -2), "STRIDE", "strides of [1, -2]", "at least 1 on each axis")
