"""Make constants of an input's type, and repeat operands for operations that do not broadcast."""

from __future__ import annotations

import numpy as np

from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions, describe
from nnhal_frontends.onnx.builder import NodeBuilder

_BOOL = OperandType.TENSOR_BOOL8


def filled(b: NodeBuilder, value: float, index: int = 0, shape: Dimensions = (1,)) -> int:
    """Add a constant of the element type of an input, with ``value`` in all elements."""
    b.reserve(shape, b.element_type(index))
    return b.array(np.full(shape, value, b.element_type(index)))


def broadcast_input(b: NodeBuilder, index: int, shape: Dimensions) -> int:
    """Return an input, repeated to a shape."""
    values = b.constant(index)
    if values is None or 0 in shape:
        require_lengths(b, index)
        return broadcast(b, b.input(index), b.shape(index), shape)
    source = b.operand(b.input(index))
    if values.shape != shape:
        b.reserve(shape, values.dtype)
    return b.add_constant(
        OperandType(source.type), np.broadcast_to(values, shape), scale=source.scale, zero_point=source.zero_point
    )


def require_lengths(b: NodeBuilder, index: int) -> None:
    """Raise UnsupportedNode if an unknown length of an input may be 1 where the result's is another."""
    given, wanted = (b.graph.sizes(name) for name in (b.node.inputs[index], b.node.outputs[0]))
    pairs = zip((given or b.shape(index))[::-1], (wanted or b.output_shape())[::-1], strict=False)
    if any(one != other and one in (0, str(one)) for one, other in pairs):
        raise b.node.unsupported(
            f"{describe(b.shape(index))} is repeated to {describe(b.output_shape())}, of which lengths may differ",
            "fixed shapes of the inputs",
        )


def broadcast(b: NodeBuilder, operand: int, given: Dimensions, shape: Dimensions) -> int:
    """Repeat an operand of dimensions ``given`` to a shape. Unknown dimensions are taken to be equal on both sides."""
    operation = repetition(b, operand, given, shape)
    return operand if operation is None else b.apply(*operation)


def repetition(
    b: NodeBuilder, operand: int, given: Dimensions, shape: Dimensions
) -> tuple[OperationType, list[int]] | None:
    """Return the operation that repeats an operand to a shape, with its inputs; None if the operand has that shape."""
    aligned = (1,) * (len(shape) - len(given)) + given
    repeated = [length == 1 != wanted for length, wanted in zip(aligned, shape, strict=True)]
    if any(wanted == 0 for wanted, repeat in zip(shape, repeated, strict=True) if repeat):
        raise b.node.unsupported(
            f"{describe(given)} is repeated to {describe(shape)}, whose lengths are unknown",
            "fixed shapes of the inputs",
        )
    longer = len(shape) > max(1, len(given))
    if not any(repeated) and not longer:
        return None
    multiples = [wanted if repeat else 1 for wanted, repeat in zip(shape, repeated, strict=True)]
    if b.operand(operand).type == _BOOL:
        # TILE does not take booleans. A disjunction with false broadcasts them.
        b.reserve(multiples, np.dtype(np.bool_))
        return OperationType.LOGICAL_OR, [operand, b.add_constant(_BOOL, np.zeros(multiples, np.bool_))]
    if longer:
        inputs = [operand, b.shape_constant(aligned)]
        if not any(repeated):
            return OperationType.RESHAPE, inputs
        operand = b.apply(OperationType.RESHAPE, inputs)
    return OperationType.TILE, [operand, b.vector(multiples)]
