"""Bounds of what ONNX's shape inference would make of a model, found before it runs.

It keeps a list of dimensions for each tensor, and with data propagation one dimension for each element of every vector
that a node such as Cast reads, whether it is one of sizes or not. A few nodes can make both so long that no memory is
enough: Concat of a vector with itself, time and again, a Reshape to a million dimensions before thousands of nodes, or
Cast of a vector with 2^62 elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, numpy_helper

from nnhal_frontends.errors import InvalidModel

LONGEST_SIZES = 1024
"""The longest vector of sizes that is propagated as data."""
MOST_ELEMENTS = 1 << 20
"""The most elements of all vectors that are propagated together. Each takes some 140 bytes."""
MOST_DIMENSIONS = 1 << 22
"""The most dimensions of all tensors of a model together."""
_MOST_VALUE = 1 << 63
"""Bounds above it are all too large. In a chain of products the digits of others would double at each node."""
_USUAL_RANK = 8
"""Assumed for a tensor about which nothing is known."""
_PROPAGATED = frozenset({"Add", "Cast", "Concat", "Gather", "Mul", "Slice", "Squeeze", "Sub", "Unsqueeze"})
"""Operators that propagate the elements of the vectors that they read."""
_SIZED_BY_VALUES = frozenset(
    {"ConstantOfShape", "Expand", "OneHot", "Pad", "Range", "Reshape", "Resize", "Tile", "Upsample"}
)
"""Operators whose results have dimensions that the values of their inputs give."""


@dataclass(slots=True)
class InferenceBounds:
    """The bounds of a graph and its subgraphs."""

    dimensions: int = 0
    """Dimensions of all tensors."""
    longest: int = 0
    """Elements of the longest vector that may be made of others."""
    elements: int = 0
    """Elements of all vectors that may be propagated."""
    # Subgraphs have no scopes here: of tensors with one name the larger bound counts.
    _ranks: dict[str, int] = field(default_factory=dict)
    _lengths: dict[str, int] = field(default_factory=dict)
    _values: dict[str, int] = field(default_factory=dict)  # the largest of each tensor that may be one of sizes
    _known: dict[str, int] = field(default_factory=dict)  # lengths that are inferred or declared; 0 for no vector

    @classmethod
    def of(cls, graph: GraphProto) -> InferenceBounds:
        """Return the bounds of a graph."""
        bounds = cls()
        bounds._graph(graph)
        return bounds

    @property
    def may_propagate(self) -> bool:
        """Whether shape inference may propagate data."""
        return self.longest <= LONGEST_SIZES and self.elements <= MOST_ELEMENTS

    def require_few(self) -> None:
        """Raise InvalidModel if the tensors have too many dimensions."""
        if self.dimensions > MOST_DIMENSIONS:
            raise InvalidModel(
                f"the model's tensors have up to {self.dimensions} dimensions together, expected at most "
                f"{MOST_DIMENSIONS}"
            )

    def _graph(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            self._constant(tensor.name, tensor)
        for value in (*graph.input, *graph.value_info, *graph.output):
            kind = value.type.tensor_type
            if not kind.HasField("shape"):
                continue
            dims = kind.shape.dim
            self._values[f"shape of {value.name}"] = max((dim.dim_value for dim in dims), default=0)
            if len(dims) != 1 or dims[0].HasField("dim_value"):
                self._known[value.name] = dims[0].dim_value if len(dims) == 1 else 0
        for value in graph.input:
            self._note(value.name, len(value.type.tensor_type.shape.dim), self._known.get(value.name, 0))
        for node in graph.node:
            self._node(node)

    def _constant(self, name: str, tensor: TensorProto) -> None:
        length = prod(tensor.dims) if len(tensor.dims) < 2 else 0
        self._note(name, len(tensor.dims), length)
        if tensor.data_type in (TensorProto.INT32, TensorProto.INT64) and length <= LONGEST_SIZES:
            try:
                values = numpy_helper.to_array(tensor)
            except ValueError:  # its bytes are not those of so many numbers, which is found later
                return
            self._values[name] = max((abs(value) for value in np.ravel(values).tolist()), default=0)

    def _node(self, node: NodeProto) -> None:
        for graph in _graphs_of(node):
            self._graph(graph)
        if node.op_type == "Constant":
            self._constant_node(node)
            return
        given = [name for name in node.input if name]
        ranks = [self._ranks.get(name, _USUAL_RANK) for name in given] or [0]
        lengths = [self._lengths.get(name, 0) for name in given] or [0]
        values = [self._values.get(name, 0) for name in given] or [0]
        rank, length = _rank_after(node, ranks, lengths), max(lengths)
        if node.op_type in _PROPAGATED:
            self.elements += sum(lengths)
        if node.op_type == "Concat":
            length = sum(lengths)
            self.longest = max(self.longest, length)
        elif node.op_type in ("Shape", "Gather"):
            length = ranks[0] if node.op_type == "Shape" else lengths[-1]
        elif node.op_type in _SIZED_BY_VALUES:
            length = min(max(1, length) * max(1, *values), _MOST_VALUE)
        value = min(self._value_after(node, given, values), _MOST_VALUE)
        for name in node.output:
            self._note(name, rank, self._known.get(name, length))
            self._values[name] = value
            self.dimensions += rank

    def _value_after(self, node: NodeProto, given: list[str], values: list[int]) -> int:
        """Return the largest value that the sizes which a node computes can have."""
        if node.op_type in ("Shape", "Size"):
            return self._values.get(f"shape of {given[0]}", 0) if given else 0
        if node.op_type in ("Gather", "Slice", "Squeeze", "Unsqueeze"):
            return values[0]
        if node.op_type == "Mul":
            return prod(values)
        return sum(values) if node.op_type in ("Add", "Sub") else max(values)

    def _constant_node(self, node: NodeProto) -> None:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                self._constant(node.output[0], attribute.t)
            else:
                self._note(node.output[0], 1, len(attribute.ints))
                self._values[node.output[0]] = max((abs(value) for value in (*attribute.ints, attribute.i)), default=0)

    def _note(self, name: str, rank: int, length: int) -> None:
        self._ranks[name] = max(rank, self._ranks.get(name, 0))
        self._lengths[name] = max(length, self._lengths.get(name, 0))


def _graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g


def _rank_after(node: NodeProto, ranks: list[int], lengths: list[int]) -> int:
    """Return the largest rank that the results of a node can have."""
    kind = node.op_type
    if kind in ("Gather", "GatherND"):
        return sum(ranks)
    if kind == "Unsqueeze":
        return ranks[0] + (lengths[1] if len(lengths) > 1 else max((len(a.ints) for a in node.attribute), default=0))
    if kind == "Reshape":
        return max([lengths[-1], *(len(a.ints) for a in node.attribute)])
    if kind in ("ConstantOfShape", "Expand"):
        return max(lengths[-1], ranks[0] if kind == "Expand" else 0)
    if kind in ("OneHot", "Loop", "Scan", "If", "SplitToSequence", "ConcatFromSequence"):
        return max(ranks) + 1
    return max([*ranks, *(len(a.ints) for a in node.attribute if a.name == "shape")])
