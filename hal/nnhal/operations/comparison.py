"""EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL and NOT_EQUAL: element-wise comparison of two tensors that broadcast.

Quantised inputs may differ in scale and zero point: the real numbers are compared.
"""

from __future__ import annotations

from nnhal.operations._definition import OperationDefinition
from nnhal.operations._pairwise import pairwise
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType


def _comparison(kind: OperationType) -> OperationDefinition:
    return pairwise(kind, {B8: 3, F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}, result=B8)


EQUAL = _comparison(OperationType.EQUAL)
GREATER = _comparison(OperationType.GREATER)
GREATER_EQUAL = _comparison(OperationType.GREATER_EQUAL)
LESS = _comparison(OperationType.LESS)
LESS_EQUAL = _comparison(OperationType.LESS_EQUAL)
NOT_EQUAL = _comparison(OperationType.NOT_EQUAL)
