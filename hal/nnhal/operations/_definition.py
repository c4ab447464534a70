"""What each operation's module defines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnhal.operations._context import OperationContext, Signature
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


@dataclass(frozen=True, slots=True)
class OperationDefinition:
    """An operation without its arithmetic.

    ``since`` is the feature level that brought it. ``validate`` checks counts, types and what else is certain from the
    model alone: it raises INVALID_ARGUMENT. ``prepare`` gives the dimensions of the outputs, and checks what depends on
    dimensions and values: it raises HalError, or UnknownYet where it must be asked again later.
    """

    type: OperationType
    since: int
    validate: Callable[[Signature], None]
    prepare: Callable[[OperationContext], tuple[Dimensions, ...]]
