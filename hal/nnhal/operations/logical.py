"""LOGICAL_AND and LOGICAL_OR of two tensors that broadcast."""

from __future__ import annotations

from nnhal.operations._pairwise import pairwise
from nnhal.operations._types import B8
from nnhal.types import OperationType

LOGICAL_AND = pairwise(OperationType.LOGICAL_AND, {B8: 3})
LOGICAL_OR = pairwise(OperationType.LOGICAL_OR, {B8: 3})
