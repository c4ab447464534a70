from __future__ import annotations

from nnhal.operations._types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from tests.support.agreement import single
from tests.support.ethos_u import assert_limit


def test_slices_have_no_strides() -> None:
    def cut(stride: int) -> ResolvedModel:
        parameters = [[0, 0], [4, 8], [1, stride], 0, 0, 0]
        return single(OperationType.STRIDED_SLICE, Q8A, [(4, 8)], parameters)

    assert_limit(cut(1), cut(2), "STRIDE", "strides of [1, 2]", "1 on each axis")
