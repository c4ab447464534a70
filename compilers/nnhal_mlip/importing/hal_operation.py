"""One operation of the HAL while it becomes nodes of a flow graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import OperationContext
from nnhal.types import FusedActivation
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowValue, SourceNode
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_values import scales_of, signed

_RANGES = {FusedActivation.RELU1: (-1.0, 1.0), FusedActivation.RELU6: (0.0, 6.0)}


@dataclass(frozen=True, slots=True)
class HalOperation:
    """An operation whose types and constants the flow can take."""

    context: OperationContext
    name: str
    """Of its output: what its constants are named after."""
    sources: tuple[SourceNode, ...]
    """What its nodes stand for in the user's model."""
    builder: FlowGraphBuilder
    tensor_of: Callable[[int], str]
    """Returns the value that holds an input, by its position."""
    output: FlowValue
    """The type of the result."""

    def tensor(self, position: int) -> str:
        """Return the value that holds an input."""
        return self.tensor_of(position)

    def weights(self, position: int) -> tuple[Array, tuple[float, ...], int]:
        """Return a constant input as signed numbers, its scales, and the axis of the scales."""
        operand = self.context.inputs[position]
        return signed(operand, self.context.value(position)), *scales_of(operand)

    def constant(self, what: str, values: Array, scales: Sequence[float] = (), axis: int = 0) -> str:
        """Add a constant of the operation, and return its name."""
        return self.builder.constant(f"{self.name}/{what}", np.ascontiguousarray(values), tuple(scales), axis)

    def add(
        self,
        operator: Operator,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        value: FlowValue | None = None,
    ) -> str:
        """Add a node with a result of a type, by default the output's, and return the result's name."""
        return self.builder.add(operator, inputs, attributes or {}, self.sources, results=(value or self.output,))

    def activated(self, value: str, activation: FusedActivation) -> str:
        """Add a node for a fused activation, if there is one."""
        if activation == FusedActivation.NONE:
            return value
        if activation == FusedActivation.RELU:
            return self.add(Operator.RELU, [value])
        low, high = _RANGES[activation]
        return self.add(Operator.CLIP, [value], {"a_min": low, "a_max": high})
