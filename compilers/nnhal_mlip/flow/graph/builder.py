"""Build a graph node by node, with types inferred and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import Attribute, Evaluate, FlowGraph, FlowNode, FlowValue, SourceNode
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.graph.shapes import infer


class FlowGraphBuilder:
    """Collects the values and nodes of a graph. A name that is taken gets a number behind it."""

    def __init__(self) -> None:
        self.values: dict[str, FlowValue] = {}
        """The types of all values so far."""
        self.constants: dict[str, Array] = {}
        """The constants so far."""
        self._nodes: list[FlowNode] = []
        self._inputs: list[str] = []

    def input(
        self, name: str, shape: Sequence[int], element_type: DTypeLike = np.float32, scales: Sequence[float] = ()
    ) -> str:
        """Add an input of the graph; return its value. 0 in ``shape`` is an unknown dimension."""
        name = self._new(name, FlowValue(tuple(shape), np.dtype(element_type), tuple(scales)))
        self._inputs.append(name)
        return name

    def constant(self, name: str, array: Array, scales: Sequence[float] = (), axis: int = 0) -> str:
        name = self._new(name, FlowValue(array.shape, array.dtype, tuple(scales), axis))
        self.constants[name] = array
        return name

    def add(
        self,
        operator: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        sources: Sequence[SourceNode] = (),
        name: str = "",
        evaluate: Evaluate | None = None,
        results: Sequence[FlowValue] | None = None,
        names: Sequence[str] = (),
    ) -> str:
        """Add a node; return its first output. ``name`` is that of the output, ``names`` those of several.

        Operators that the flow does not know need ``results`` and ``evaluate``. Others need them only for scales.
        Raises FlowError, with the user's name of the node, if the operator cannot have these inputs, attributes or
        results.
        """
        place = sources[0].name if sources else name or f"{operator}_{len(self._nodes)}"
        for each in inputs:
            if each not in self.values:
                raise FlowError(f"node '{place}' ({operator}): got input '{each}', expected a value of the graph")
        taken = dict(attributes or {})
        if results is None:
            results = [infer(operator, [self.values[each] for each in inputs], taken, place)]
        elif operator in set(Operator):
            self._check(operator, inputs, taken, place, results)
        elif evaluate is None:
            raise FlowError(
                f"node '{place}' ({operator}): got no way to compute it, expected one of the flow's operators"
            )
        wanted = names or [name or f"{operator}_{len(self._nodes)}"]
        outputs = tuple(self._new(each, value) for each, value in zip(wanted, results, strict=True))
        self._nodes.append(FlowNode(operator, tuple(inputs), outputs, taken, tuple(sources), evaluate))
        return outputs[0]

    def build(self, outputs: Mapping[str, str]) -> FlowGraph:
        """Return the graph. ``outputs`` has the value for each output of the user's model."""
        for user, name in outputs.items():
            if name not in self.values:
                raise FlowError(f"output '{user}': got '{name}', expected a value of the graph")
        return FlowGraph(
            tuple(self._nodes), tuple(self._inputs), dict(outputs), dict(self.values), dict(self.constants)
        )

    def renamed(self, value: str, name: str, since: int) -> str:
        """Give the result of a node another name, if it is among those that were added since there were so many nodes.

        No other node may read it. Returns the name that it has.
        """
        for index in range(len(self._nodes) - 1, since - 1, -1):
            node = self._nodes[index]
            if value in node.outputs:
                made = self._new(name, self.values.pop(value))
                outputs = tuple(made if each == value else each for each in node.outputs)
                self._nodes[index] = replace(node, outputs=outputs)
                return made
        return value

    @property
    def count(self) -> int:
        return len(self._nodes)

    def outputs_of(self, name: str) -> tuple[str, ...]:
        """Return all outputs of the node that computes a value."""
        return next(node.outputs for node in reversed(self._nodes) if name in node.outputs)

    def _new(self, name: str, value: FlowValue) -> str:
        unique, number = name, 1
        while unique in self.values:
            unique, number = f"{name}_{number}", number + 1
        self.values[unique] = value
        return unique

    def _check(
        self,
        operator: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute],
        place: str,
        results: Sequence[FlowValue],
    ) -> None:
        inferred = infer(operator, [self.values[each] for each in inputs], attributes, place)
        shapes = [value.shape for value in results]
        if shapes != [inferred.shape]:
            given = ", ".join(describe(shape) for shape in shapes)
            raise FlowError(
                f"node '{place}' ({operator}): got results of shape {given}, expected {describe(inferred.shape)}"
            )
