"""Bounds of what ONNX's shape inference would make of a model, found before it runs.

It keeps a list of dimensions for each tensor, and with data propagation one dimension for each element of every vector
that a node such as Cast reads, whether it is one of sizes or not. A few nodes can make both so long that no memory is
enough: Concat of a vector with itself, time and again, a Reshape to a million dimensions before thousands of nodes, or
Cast of a vector with 2^62 elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TensorShapeProto

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
_OF_OTHER_RANKS = frozenset(
    {"Gather", "GatherND", "If", "Loop", "Scan", "Shape", "Size", "SplitToSequence", "ConcatFromSequence"}
)
_SPECIAL = _PROPAGATED | _SIZED_BY_VALUES | _OF_OTHER_RANKS
"""Operators whose results have other bounds than the largest of their inputs."""
_INTEGERS: dict[int, np.dtype[Any]] = {TensorProto.INT32: np.dtype("<i4"), TensorProto.INT64: np.dtype("<i8")}
_Bounds = tuple[int, int, int]
"""What is known of a tensor at most: its rank, the elements of a vector, and the largest if it may be one of sizes."""
_UNKNOWN: _Bounds = (_USUAL_RANK, 0, 0)
_NO_INPUT: _Bounds = (0, 0, 0)


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
    _tensors: dict[str, _Bounds] = field(default_factory=dict)
    _declared: dict[str, Sequence[TensorShapeProto.Dimension]] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)  # lengths that are inferred or declared; 0 for no vector

    @classmethod
    def of(cls, graph: GraphProto) -> InferenceBounds:
        bounds = cls()
        bounds._graph(graph)
        return bounds

    @property
    def may_propagate(self) -> bool:
        """Return whether shape inference may propagate data."""
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
            if kind.HasField("shape"):
                name, dims = value.name, kind.shape.dim
                self._declared[name] = dims
                if len(dims) != 1 or dims[0].HasField("dim_value"):
                    self._known[name] = dims[0].dim_value if len(dims) == 1 else 0
        for value in graph.input:
            self._note(value.name, len(value.type.tensor_type.shape.dim), self._known.get(value.name, 0))
        for node in graph.node:
            self._node(node)

    def _constant(self, name: str, tensor: TensorProto) -> None:
        dims = tensor.dims
        length = prod(dims) if len(dims) < 2 else 0
        kind = _INTEGERS.get(tensor.data_type)
        self._note(name, len(dims), length, None if kind is None or length > LONGEST_SIZES else _largest(tensor, kind))

    def _node(self, node: NodeProto) -> None:
        shape = 0
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                self._graph(attribute.g)
            elif attribute.name == "shape":
                shape = max(shape, len(attribute.ints))
        kind, tensors = node.op_type, self._tensors
        if kind == "Constant":
            self._constant_node(node)
            return
        given = [tensors.get(name, _UNKNOWN) for name in node.input if name] or [_NO_INPUT]
        if kind in _SPECIAL:
            rank, length, value = self._special(node, given)
        else:
            rank, length, value = map(max, zip(*given, strict=True)) if len(given) > 1 else given[0]
            rank = max(rank, shape)
        for name in node.output:
            self._note(name, rank, self._known.get(name, length), value)
            self.dimensions += rank

    def _special(self, node: NodeProto, given: list[_Bounds]) -> _Bounds:
        """Return the bounds of the results of one of the special operators."""
        kind = node.op_type
        ranks, lengths, values = (list(each) for each in zip(*given, strict=True))
        length = max(lengths)
        if kind in _PROPAGATED:
            self.elements += sum(lengths)
        if kind == "Concat":
            length = sum(lengths)
            self.longest = max(self.longest, length)
        elif kind in ("Shape", "Gather"):
            length = ranks[0] if kind == "Shape" else lengths[-1]
        elif kind in _SIZED_BY_VALUES:
            length = min(max(1, length) * max(1, *values), _MOST_VALUE)
        return _rank_after(node, ranks, lengths), length, min(self._value_after(node, values), _MOST_VALUE)

    def _value_after(self, node: NodeProto, values: list[int]) -> int:
        """Return the largest value that the sizes which a node computes can have."""
        if node.op_type in ("Shape", "Size"):
            declared = next((self._declared.get(name, ()) for name in node.input if name), ())
            return max((dim.dim_value for dim in declared), default=0)
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
                largest = max((abs(value) for value in (*attribute.ints, attribute.i)), default=0)
                self._note(node.output[0], 1, len(attribute.ints), largest)

    def _note(self, name: str, rank: int, length: int, value: int | None = None) -> None:
        """Note a tensor; None for a value that stays what it is."""
        before = self._tensors.get(name, _NO_INPUT)
        self._tensors[name] = max(rank, before[0]), max(length, before[1]), before[2] if value is None else value


def _largest(tensor: TensorProto, kind: np.dtype[Any]) -> int | None:
    """The largest magnitude in a constant; None if its bytes are not those of so many numbers, which is found later."""
    values: list[int]
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        values = np.frombuffer(raw, kind).tolist() if len(raw) % kind.itemsize == 0 else []
    else:
        values = list(tensor.int64_data if kind.itemsize == 8 else tensor.int32_data)
    return max(map(abs, values), default=0) if len(values) == prod(tensor.dims) else None


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
