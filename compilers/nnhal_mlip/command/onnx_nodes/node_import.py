"""The converters' view of a node, and their additions to the flow graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowValue, SourceNode

FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


@dataclass(frozen=True, slots=True)
class NodeImport:
    """A node that is being imported. Tensors have the names that the node has for them."""

    builder: FlowGraphBuilder
    op_type: str
    """With the domain in front, unless it is ONNX's own."""
    inputs: tuple[str, ...]
    """An empty name is an input that is left out."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int
    sources: tuple[SourceNode, ...]
    constants: Mapping[str, Array]
    names: dict[str, str]
    """The value for each tensor so far."""
    labels: Mapping[str, str]
    """What the user calls each tensor."""
    given: Mapping[str, FlowValue]
    """The types of the inputs that are computed, as the model has them."""
    results: Mapping[str, FlowValue]
    """The types of those results that are read, as the model has them."""

    def is_plain(self) -> bool:
        """Return whether all that is computed is of one type of floats and of known shape."""
        computed = [self.builder.values[self.names[name]] for name in self.inputs if name and self._computed(name)]
        types = {value.element_type for value in computed}
        if not computed:
            types = {self.constants[name].dtype for name in self.inputs[:1]}
        return len(types) == 1 and types <= set(FLOATS) and all(0 not in value.shape for value in computed)

    def has(self, index: int) -> bool:
        return bool(self._input(index))

    def shape(self, index: int = 0) -> tuple[int, ...]:
        name = self.inputs[index]
        return self.constants[name].shape if name in self.constants else self.builder.values[self.names[name]].shape

    def constant(self, index: int) -> Array | None:
        """Return an input that is constant; None if it is computed or left out."""
        return self.constants.get(self._input(index))

    def attribute(self, name: str, default: Any) -> Any:
        return self.attributes.get(name, default)

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
        return self.value(self.inputs[index])

    def all_inputs(self) -> list[str]:
        return [self.value(name) for name in self.inputs if name]

    def value(self, name: str) -> str:
        """Return the value of a tensor; add it if it is a constant."""
        if name not in self.names:
            self.names[name] = self.builder.constant(self.labels[name], self.constants[name])
        return self.names[name]

    def derived(self, index: int, how: str, array: Array) -> str:
        """Add a constant made of a constant input: ``how`` says what it is."""
        return self.builder.constant(f"{self.labels[self.inputs[index]]}/{how}", array)

    def step(self, operator: str, inputs: Sequence[str], attributes: Mapping[str, Attribute] | None = None) -> str:
        """Add an operator before the one that computes the node's result; return its value."""
        name = f"{self.labels[self.outputs[0]]}/{operator}"
        return self.builder.add(operator, inputs, attributes, self.sources, name)

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
        name = self.outputs[result]
        value = self.builder.add(operator, inputs, attributes, self.sources, self.labels[name])
        if not self.builder.values[value].shape:  # the HAL has an axis of length 1 instead
            value = self.builder.add("reshape", [value], {"newshape": (1,)}, self.sources, self.labels[name])
        self.names[name] = value
        # Before opset 22, ONNX infers a position more for windows that would begin in the padding with ceil_mode. What
        # computes them leaves those out, in any opset.
        agree = all(self._agrees(each, wanted) for each, wanted in self.given.items())
        if agree and not self.attribute("ceil_mode", 0) and not self._agrees(name, self.results[name]):
            raise FlowError(
                f"node '{self.sources[0].name}' ({self.op_type}): got a result of shape"
                f" {describe(self.builder.values[value].shape)}, expected {describe(self.results[name].shape)}, as the"
                " ONNX model has it"
            )
        return True

    def _agrees(self, name: str, wanted: FlowValue) -> bool:
        found, expected = self.builder.values[self.names[name]].shape, wanted.shape
        pairs = zip(expected, found, strict=False)
        return not expected or (len(found) == len(expected) and all(e in (0, f) for e, f in pairs))

    def _input(self, index: int) -> str:
        return self.inputs[index] if index < len(self.inputs) else ""

    def _computed(self, name: str) -> bool:
        return name not in self.constants
