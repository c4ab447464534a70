"""One operation of the HAL, and its operands, while they become nodes and values of a flow graph.

Of 8-bit operands the flow knows signed ones with a zero point of 0. An unsigned operand with a zero point of 128 holds
the same numbers: its bytes differ from the signed ones in their highest bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import OperationContext, channel_quant
from nnhal.operations.operand_types import Q8A, Q8AS, Q8C
from nnhal.types import FusedActivation, Operand
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowValue, SourceNode
from nnhal_mlip.flow.graph.operators import Operator

ZERO_POINTS: Mapping[int, int] = {Q8A: 128, Q8AS: 0}
"""The zero points of activations that stand for signed numbers around 0."""
_HIGHEST_BIT = np.uint8(0x80)
_BYTE = np.dtype(np.int8)
_OPAQUE = np.dtype(np.uint8)


def is_symmetric(operand: Operand) -> bool:
    """Return whether an operand's bytes stand for signed numbers around 0."""
    return operand.type == Q8C or ZERO_POINTS.get(operand.type) == operand.zero_point


def flow_value(operand: Operand, dimensions: Dimensions) -> FlowValue:
    if operand.type in ZERO_POINTS:
        return FlowValue(dimensions, _BYTE, (operand.scale,))
    return FlowValue(dimensions, ELEMENT_TYPES.get(operand.type, _OPAQUE))


def scales_of(operand: Operand) -> tuple[tuple[float, ...], int]:
    """Return the scales of a constant and the axis that they belong to; none for floats and integers."""
    if operand.type == Q8C:
        quantisation = channel_quant(operand)
        return tuple(quantisation.scales), quantisation.channel_dim
    return ((operand.scale,), 0) if operand.type in ZERO_POINTS else ((), 0)


def signed(operand: Operand, values: Array) -> Array:
    """Return an operand's elements as the flow has them: bytes as signed numbers."""
    return (values ^ _HIGHEST_BIT).view(_BYTE) if operand.type == Q8A else values


def unsigned(operand: Operand, values: Array) -> Array:
    """Return elements of the flow as an operand has them: the inverse of ``signed``. Floats change their width."""
    if operand.type == Q8A:
        return values.view(np.uint8) ^ _HIGHEST_BIT
    return values.astype(ELEMENT_TYPES[operand.type], copy=False)


_ACTIVATION_KINDS = ("Clip", "Relu")
_RANGES = {FusedActivation.RELU1: (-1.0, 1.0), FusedActivation.RELU6: (0.0, 6.0)}


@dataclass(frozen=True, slots=True)
class HalOperation:
    """An operation whose types and constants the flow can take."""

    context: OperationContext
    name: str
    """The name of its output: what its constants are named after."""
    sources: tuple[SourceNode, ...]
    """What its nodes stand for in the user's model."""
    builder: FlowGraphBuilder
    tensor: Callable[[int], str]
    """Returns the value that holds an input, by its position."""
    outputs: tuple[FlowValue, ...]
    """The types of the results."""
    beyond: bool = True
    """True if it may become something that the public flow refuses."""

    @property
    def output(self) -> FlowValue:
        """The type of the only result, or of the first."""
        return self.outputs[0]

    def weights(self, position: int) -> tuple[Array, tuple[float, ...], int]:
        """Return a constant input as signed numbers, its scales, and the axis of the scales."""
        operand = self.context.inputs[position]
        return signed(operand, self.context.value(position)), *scales_of(operand)

    def constant(self, what: str, values: Array, scales: Sequence[float] = (), axis: int = 0) -> str:
        return self.builder.constant(f"{self.name}/{what}", np.ascontiguousarray(values), tuple(scales), axis)

    def add(
        self,
        operator: Operator,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        value: FlowValue | None = None,
    ) -> str:
        """Add a node with a result of a type, by default the output's, and return the result's name."""
        return self._added(operator, inputs, attributes, value, self._own_sources[0])

    def activated(self, value: str, activation: FusedActivation, made: FlowValue | None = None) -> str:
        """Add a node for a fused activation, if there is one, with a result of a type, by default the output's."""
        if activation == FusedActivation.NONE:
            return value
        sources = self._own_sources[1]
        if activation == FusedActivation.RELU:
            return self._added(Operator.RELU, [value], None, made, sources)
        low, high = _RANGES[activation]
        return self._added(Operator.CLIP, [value], {"a_min": low, "a_max": high}, made, sources)

    @property
    def _own_sources(self) -> tuple[tuple[SourceNode, ...], tuple[SourceNode, ...]]:
        """The sources of the operation itself, and those of its activation: the user's model may have one for it."""
        apart = len(self.sources) > 1 and self.sources[-1].kind in _ACTIVATION_KINDS
        return (self.sources[:-1], self.sources[-1:]) if apart else (self.sources, self.sources)

    def _added(
        self,
        operator: Operator,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None,
        value: FlowValue | None,
        sources: tuple[SourceNode, ...],
    ) -> str:
        return self.builder.add(operator, inputs, attributes or {}, sources, results=(value or self.output,))


class MessageOperand(NamedTuple):
    """An input or output of an operation of nnhal.onnx."""

    operand: Operand
    label: str
    """What the user calls it."""
    type: FlowValue
    value: str | None = None
    """The value that holds it; None for constants and outputs."""
    constant: Array | None = None


MessageReader = Callable[
    [bytes, Sequence[MessageOperand], Sequence[MessageOperand], FlowGraphBuilder, tuple[SourceNode, ...]],
    tuple[str, ...],
]
"""Adds what an operation of nnhal.onnx holds, and returns its results. The command has it: a compiler reads no ONNX."""
