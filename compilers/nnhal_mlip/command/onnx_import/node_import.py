"""What the converters see of a node, and how they add to the flow graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import Attribute, SourceNode

FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


@dataclass(frozen=True, slots=True)
class NodeImport:
    """A node that is being imported."""

    builder: FlowGraphBuilder
    graph: OnnxGraph
    node: OnnxNode
    source: SourceNode
    names: dict[str, str]
    """The value for each tensor so far."""

    def is_plain(self) -> bool:
        """Return whether all that is computed is of one type of floats and of known shape."""
        computed = [self.builder.values[self.names[name]] for name in self.node.inputs if name and self._computed(name)]
        types = {value.element_type for value in computed}
        if not computed:
            types = {self.graph.constants[name].dtype for name in self.node.inputs[:1]}
        return len(types) == 1 and types <= set(FLOATS) and all(0 not in value.shape for value in computed)

    def has(self, index: int) -> bool:
        """Return whether an input is given."""
        return bool(self.node.input(index))

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an input."""
        name = self.node.inputs[index]
        return self.builder.values[self.names[name]].shape if name in self.names else self.graph.constants[name].shape

    def constant(self, index: int) -> Array | None:
        """Return an input that is constant; None if it is computed or left out."""
        return self.graph.constants.get(self.node.input(index))

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute."""
        return self.node.attributes.get(name, default)

    def integers(self, index: int, attribute: str) -> tuple[int, ...] | None:
        """Return integers that are an attribute or, in later opsets, a constant input.

        None if they are computed; empty if they are left out.
        """
        if self.has(index):
            given = self.constant(index)
            return None if given is None else tuple(int(value) for value in given.reshape(-1))
        return tuple(int(value) for value in self.attribute(attribute, ()))

    def axes(self, index: int, attribute: str = "axes", rank: int | None = None) -> tuple[int, ...] | None:
        """Return axes, as ``integers`` does, in order and counted from the front."""
        axes, count = self.integers(index, attribute), len(self.shape()) if rank is None else rank
        return None if axes is None else tuple(sorted(axis % count for axis in axes))

    def input(self, index: int = 0) -> str:
        """Return the value of an input."""
        return self.value(self.node.inputs[index])

    def inputs(self) -> list[str]:
        """Return the values of all inputs that are given."""
        return [self.value(name) for name in self.node.inputs if name]

    def value(self, name: str) -> str:
        """Return the value of a tensor; add it if it is a constant."""
        if name not in self.names:
            self.names[name] = self.builder.constant(name, self.graph.constants[name])
        return self.names[name]

    def derived(self, index: int, how: str, array: Array) -> str:
        """Add a constant made of a constant input, or return it if it has been added: ``how`` says what it is."""
        key = f"{self.node.inputs[index]}/{how}"
        if key not in self.names:
            self.names[key] = self.builder.constant(key, array)
        return self.names[key]

    def step(self, operator: str, inputs: Sequence[str], attributes: Mapping[str, Attribute] | None = None) -> str:
        """Add an operator before the one that computes the node's result; return its value."""
        name = f"{self.node.outputs[0]}/{operator}"
        return self.builder.add(operator, inputs, attributes, (self.source,), name)

    def finish(
        self,
        operator: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        result: int = 0,
    ) -> bool:
        """Add the operator that computes a result of the node, the first by default; return True.

        Raises FlowError if the result has another shape than ONNX infers.
        """
        name = self.node.outputs[result]
        self.names[name] = self.builder.add(operator, inputs, attributes, (self.source,), name)
        # Before opset 22, ONNX infers a position more for windows that would begin in the padding with ceil_mode. What
        # computes them leaves those out, in any opset.
        if self.agrees() and not self.attribute("ceil_mode", 0) and not self._agrees(name):
            found, expected = self.builder.values[self.names[name]].shape, self.graph.shape(name)
            raise FlowError(
                f"node '{self.node.name}' ({self.node.op_type}): got a result of shape {describe(found)}, expected"
                f" {describe(expected or ())}, as the ONNX model has it"
            )
        return True

    def agrees(self) -> bool:
        """Return whether the inputs have the shapes that ONNX infers, so that the result should have as well."""
        return all(self._agrees(name) for name in self.node.inputs if name and self._computed(name))

    def _agrees(self, name: str) -> bool:
        found, expected = self.builder.values[self.names[name]].shape, self.graph.shape(name)
        return expected is None or (
            len(found) == len(expected) and all(e in (0, f) for e, f in zip(expected, found, strict=True))
        )

    def _computed(self, name: str) -> bool:
        return name not in self.graph.constants
