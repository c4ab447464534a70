"""Uses of ONNX's operators at which ONNX Runtime ends its process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, numpy_helper

_OWN_DOMAINS = ("", "ai.onnx")
_TRAPPING = (TensorProto.INT32, TensorProto.INT64)
"""Types of quotients at which processors trap: of the least integer by -1."""
_INT64_RESULTS = frozenset({"ArgMax", "ArgMin", "NonZero", "Shape", "Size"})
_SAME_TYPE = frozenset(
    (
        *("Abs", "Add", "Clip", "Concat", "CumSum", "Div", "Expand", "Flatten"),
        *("Gather", "GatherElements", "GatherND", "Identity", "Max", "Min", "Mod", "Mul"),
        *("Neg", "Pad", "Pow", "Range", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
        *("ReduceSum", "Reshape", "ScatterElements", "ScatterND", "Sign", "Slice", "Split", "Squeeze"),
        *("Sub", "Sum", "Tile", "TopK", "Transpose", "Unique", "Unsqueeze"),
    )
)
"""Operators whose first result has the type of their first input."""
_SAME_VALUES = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


class FatalUse(NamedTuple):
    """A use that ends the process, and what is allowed in its place."""

    got: str
    allowed: str


class _Known(NamedTuple):
    """Facts about the values of a graph by their names."""

    types: dict[str, int]
    constants: dict[str, TensorProto]


def fatal_use(graph: GraphProto, outer: _Known | None = None) -> FatalUse | None:
    """Return the first use in a graph, or in one within it, at which ONNX Runtime ends its process.

    Element types are those that the graph declares, and those that follow from them operator by operator.
    """
    known = _declared(graph, outer)
    for node in graph.node:
        if node.domain in _OWN_DOMAINS:
            if node.op_type == "BatchNormalization" and not all(node.output):
                return FatalUse("a BatchNormalization that leaves out an output before its last", "all up to the last")
            if node.op_type == "Div" and _may_trap(node, known):
                return FatalUse("a quotient of integers by what may be -1", "a constant divisor without -1")
            _note(node, known)
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.type == AttributeProto.GRAPH else [])):
                if found := fatal_use(inner, known):
                    return found
    return None


def _declared(graph: GraphProto, outer: _Known | None) -> _Known:
    known = _Known({}, {}) if outer is None else _Known(dict(outer.types), dict(outer.constants))
    for value in (*graph.input, *graph.value_info, *graph.output):
        known.types[value.name] = value.type.tensor_type.elem_type
    for tensor in graph.initializer:
        known.types[tensor.name], known.constants[tensor.name] = tensor.data_type, tensor
    for value in graph.input:  # it may be given at each run
        known.constants.pop(value.name, None)
    return known


def _note(node: NodeProto, known: _Known) -> None:
    """Note the type of a node's first result, and its value if that is a constant's."""
    result = node.output[0] if node.output else ""
    attributes: Mapping[str, AttributeProto] = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type in ("Constant", "ConstantOfShape") and "value" in attributes:
        known.types[result] = attributes["value"].t.data_type
        if node.op_type == "Constant":
            known.constants[result] = attributes["value"].t
    elif node.op_type == "Cast":
        known.types[result] = attributes["to"].i if "to" in attributes else 0
    elif node.op_type in _INT64_RESULTS:
        known.types[result] = TensorProto.INT64
    elif node.op_type == "Where" or (node.op_type in _SAME_TYPE and node.input):
        known.types.setdefault(result, known.types.get(node.input[-1 if node.op_type == "Where" else 0], 0))
    if node.op_type in _SAME_VALUES and node.input and node.input[0] in known.constants:
        known.constants[result] = known.constants[node.input[0]]


def _may_trap(node: NodeProto, known: _Known) -> bool:
    if not any(known.types.get(name) in _TRAPPING for name in (*node.input, *node.output)):
        return False
    divisor = known.constants.get(node.input[1]) if len(node.input) > 1 else None
    if divisor is None or divisor.data_location == TensorProto.EXTERNAL:
        return True
    return bool(np.any(numpy_helper.to_array(divisor) == -1))
