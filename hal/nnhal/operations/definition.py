"""The definition that each operation's module provides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnhal.operations.context import OperationContext, Signature
from nnhal.types import OperationType
from nnhal.types.layout import MAX_OPERAND_BYTES, MAX_RANK, Dimensions, byte_size


@dataclass(frozen=True, slots=True)
class OperationDefinition:
    """An operation without its arithmetic.

    ``since`` is the feature level that introduced it. ``validate`` checks counts, types and everything else that
    follows from the model alone, and raises INVALID_ARGUMENT. ``prepare`` returns the dimensions of the outputs and
    checks everything that depends on dimensions and values. It raises HalError, or UnknownYet if it must be called
    again once more is known. With ``depends_on_values`` some lengths of the outputs follow from the values of inputs:
    ``prepare`` returns 0 for them, even at execution. With ``compares_lengths``, ``validate`` looks at lengths of axes;
    otherwise it looks at types, ranks and quantisation only.
    """

    type: OperationType
    since: int
    validate: Callable[[Signature], None]
    prepare: Callable[[OperationContext], tuple[Dimensions, ...]]
    depends_on_values: bool = False
    compares_lengths: bool = False

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
