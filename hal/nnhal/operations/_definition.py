"""The definition that each operation's module provides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnhal.operations._context import OperationContext, Signature
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


@dataclass(frozen=True, slots=True)
class OperationDefinition:
    """An operation without its arithmetic.

    ``since`` is the feature level that introduced it. ``validate`` checks counts, types and everything else that
    follows from the model alone, and raises INVALID_ARGUMENT. ``prepare`` returns the dimensions of the outputs and
    checks everything that depends on dimensions and values. It raises HalError, or UnknownYet if it must be called
    again once more is known.
    """

    type: OperationType
    since: int
    validate: Callable[[Signature], None]
    prepare: Callable[[OperationContext], tuple[Dimensions, ...]]
