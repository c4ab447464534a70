"""PRELU: x if x is not negative, otherwise alpha * x. The tensors x and alpha broadcast."""

from __future__ import annotations

from nnhal.operations._pairwise import pairwise
from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import OperationType

PRELU = pairwise(OperationType.PRELU, {F16: 3, F32: 3, Q8A: 3, Q8AS: 4})
