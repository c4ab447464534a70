"""POW: the first tensor to the power of the second, broadcast."""

from __future__ import annotations

from nnhal.operations._pairwise import pairwise
from nnhal.operations._types import F16, F32
from nnhal.types import OperationType

POW = pairwise(OperationType.POW, {F16: 3, F32: 3})
