"""The graph that the flow's passes work on: immutable, with values by name, in an order in which it can be computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.operators import TABLES
from nnhal_mlip.program.tables import TaskTable

Attribute: TypeAlias = bool | int | float | str | tuple[int, ...]
Evaluate: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]
"""Computes the results of an operator that only the host has."""


class SourceNode(NamedTuple):
    """Node of the user's model that a node of a flow graph stands for."""

    number: int
    """The position of the node or operation in the model."""
    name: str
    """The user's name, or one that the importer made of the kind and the number."""
    kind: str
    """The word of the model's format: ``Conv``, ``CONV_2D``."""


class FlowValue(NamedTuple):
    """The type of a value."""

    shape: tuple[int, ...]
    """0 for an unknown dimension."""
    element_type: np.dtype[np.generic]
    scales: tuple[float, ...] = ()
    """Scales of 8-bit values, with a zero point of 0: one, or one for each index along ``axis``; empty for floats."""
    axis: int = 0

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class FlowNode:
    """An operator with its operands. A node is known by its first output."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    sources: tuple[SourceNode, ...] = ()
    """The nodes of the user's model that it stands for; empty if a pass has added it."""
    evaluate: Evaluate | None = field(default=None, compare=False)
    """For an operator that only the host has."""

    @property
    def output(self) -> str:
        """The first output, by which the node is known."""
        return self.outputs[0]

    @property
    def name(self) -> str:
        """The user's name of the node, for messages; the name of its output if a pass has added it."""
        return self.sources[0].name if self.sources else self.output

    def integer(self, name: str) -> int:
        value = self.attributes[name]
        if not isinstance(value, int):
            raise TypeError(f"{self.name}: attribute {name} is {value!r}, expected an integer")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        value = self.attributes[name]
        if not isinstance(value, tuple):
            raise TypeError(f"{self.name}: attribute {name} is {value!r}, expected integers")
        return value

    def real(self, name: str) -> float:
        value = self.attributes[name]
        if isinstance(value, str | tuple):
            raise TypeError(f"{self.name}: attribute {name} is {value!r}, expected a number")
        return float(value)

    def text(self, name: str) -> str:
        value = self.attributes[name]
        if not isinstance(value, str):
            raise TypeError(f"{self.name}: attribute {name} is {value!r}, expected a word")
        return value


def table_of(node: FlowNode) -> TaskTable:
    """Return the function of a node that a table computes."""
    alpha, beta = (node.real(name) if name in node.attributes else 0.0 for name in ("alpha", "beta"))
    return TaskTable(TABLES[node.operator], alpha, beta)


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """A graph. Nodes are in an order in which they can be computed."""

    nodes: tuple[FlowNode, ...]
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    """The value that holds each output of the user's model, by the user's name."""
    values: Mapping[str, FlowValue]
    """The types of all values, constants included."""
    constants: Mapping[str, Array]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def uses(self) -> Counter[str]:
        """Count how often each value is read, by nodes and as an output of the graph."""
        return Counter([name for node in self.nodes for name in node.inputs] + list(self.outputs.values()))

    def producers(self) -> dict[str, FlowNode]:
        return {name: node for node in self.nodes for name in node.outputs}

    def consumers(self) -> dict[str, list[FlowNode]]:
        """Return the nodes that read each value, each of them once, in order."""
        found: dict[str, list[FlowNode]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found
