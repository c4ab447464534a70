"""The definition that each operation's module provides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.layout_rules import LayoutRule
from nnhal.operations.work import Work
from nnhal.types import OperationType
from nnhal.types.layout import MAX_OPERAND_BYTES, MAX_RANK, Dimensions, byte_size


@dataclass(frozen=True, slots=True)
class OperationDefinition:
    """The declaration of an operation, from which the HAL's tables are made. Its kernel is in ``nnhal.kernels``."""

    type: OperationType
    since: int
    """The feature level that introduced it."""
    validate: Callable[[Signature], None]
    """Checks counts, types and everything else that follows from the model alone. Raises INVALID_ARGUMENT."""
    prepare: Callable[[OperationContext], tuple[Dimensions, ...]]
    """Returns the dimensions of the outputs, and checks everything that depends on dimensions and values.

    Raises HalError, or UnknownYet if it must be called again once more is known.
    """
    depends_on_values: bool = False
    """True if lengths of the outputs follow from the values of inputs: ``prepare`` returns 0 for them."""
    compares_lengths: bool = False
    """True if ``validate`` looks at lengths of axes, and not at types, ranks and quantisation only."""
    layout: LayoutRule | None = None
    """Its behaviour if its tensors lie in another order. Without one, it needs the order of the model."""
    work: Work | None = None
    """Counts its multiply-adds. Without it, it takes one step for each element of its largest tensor."""

    def prepared(self, op: OperationContext) -> tuple[Dimensions, ...]:
        """Return what ``prepare`` returns, which it is asked for once: checks, support and lowering want to know it."""
        results: tuple[Dimensions, ...] | None = op.found.get(self.prepare)
        if results is None:
            results = op.found[self.prepare] = self.prepare(op)
        return results

    def output_dimensions(self, op: OperationContext) -> tuple[Dimensions, ...]:
        """Return what ``prepare`` returns. Refuse outputs of more axes or bytes than an operand may have."""
        results = self.prepared(op)
        for index, (dimensions, output) in enumerate(zip(results, op.outputs, strict=True)):
            if len(dimensions) > MAX_RANK:
                op.refuse(f"output {index} has rank {len(dimensions)}, expected at most {MAX_RANK}")
            size = byte_size(output.type, dimensions)
            if size > MAX_OPERAND_BYTES:
                op.refuse(f"output {index} takes {size} bytes, expected at most {MAX_OPERAND_BYTES}")
        return results
