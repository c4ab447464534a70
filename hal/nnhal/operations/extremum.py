"""MAXIMUM and MINIMUM of two tensors that broadcast. Inputs and output may differ in quantisation."""

from __future__ import annotations

from nnhal.operations._pairwise import pairwise
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperationType

_TYPES = {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}

MAXIMUM = pairwise(OperationType.MAXIMUM, _TYPES)
MINIMUM = pairwise(OperationType.MINIMUM, _TYPES)
