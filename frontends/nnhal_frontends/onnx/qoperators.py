"""Expand operators on quantised numbers, ONNX's own and ONNX Runtime's, into operators on floats.

Each becomes DequantizeLinear, the operator on floats and QuantizeLinear, as in other quantised models. This comes
before shape inference, which ONNX does not do for operators of another domain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import fresh, tensor_names
from nnhal_frontends.onnx.weights_apart import ModelApart

_CONTRIBUTED = "com.microsoft"
_FIRST_WITH_QUANTIZATION = 10
_SINGLE_AXIS_OPSET = 13


@dataclass(slots=True)
class Expansion:
    """The expansion of one node."""

    node: NodeProto
    """The node to be expanded."""
    name: str
    """The name of all nodes that replace it."""
    known: Mapping[str, Array]
    """The constants of the model."""
    opset: int
    taken: Collection[str]
    """All names of the model's tensors."""
    nodes: list[NodeProto] = field(default_factory=list)
    """The nodes that replace it."""
    constants: dict[str, Array] = field(default_factory=dict)
    """The constants that these nodes need."""

    def input(self, index: int) -> str:
        """Return the name of an input; empty if it is left out."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def attributes(self, *dropped: str) -> dict[str, Any]:
        """Return the node's attributes except those in ``dropped``."""
        return {a.name: helper.get_attribute_value(a) for a in self.node.attribute if a.name not in dropped}

    def reals(self, first: int, axis: int | None = None) -> str:
        """Dequantise an input by the scale and zero point in the two inputs after it.

        ``axis`` is the axis of the scales if there are several.
        """
        values, scale, zero_point = (self.input(first + index) for index in range(3))
        several = axis is not None and scale in self.known and self.known[scale].size > 1
        return self.dequantized(values, scale, zero_point, axis if several else None)

    def dequantized(self, values: str, scale: str, zero_point: str = "", axis: int | None = None) -> str:
        """Add DequantizeLinear of a tensor, and return its result."""
        result = fresh(f"{self.node.output[0]}/{len(self.nodes)}", self.taken)
        inputs = [values, scale, zero_point] if zero_point else [values, scale]
        attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [result], self.name, **attributes))
        return result

    def sums(self, index: int, first: int, second: int, factor: float = 1.0) -> str | None:
        """Dequantise an input of integers whose scale is the product of two scales; None if these are not constant."""
        values, scales = self.input(index), [self.known.get(self.input(place)) for place in (first, second)]
        if not values:
            return ""
        if scales[0] is None or scales[1] is None:
            return None
        scale = fresh(f"{self.node.output[0]}/scale", self.taken)
        self.constants[scale] = (scales[0] * scales[1] * np.float32(factor)).squeeze()
        return self.dequantized(values, scale, axis=0 if self.constants[scale].ndim else None)

    def finish(self, op_type: str, inputs: Iterable[str], scale: int | None, **attributes: Any) -> list[NodeProto]:
        """Return the nodes, completed by the operator on floats and QuantizeLinear.

        ``scale`` is the index of the input with the result's scale, followed by its zero point; None for float results.
        """
        given = list(inputs)
        while not given[-1]:
            given.pop()
        (output,) = self.node.output
        if scale is None or not self.input(scale):
            return [*self.nodes, helper.make_node(op_type, given, [output], self.name, **attributes)]
        result = fresh(f"{output}/reals", self.taken)
        self.nodes.append(helper.make_node(op_type, given, [result], self.name, **attributes))
        parameters = [name for name in (self.input(scale), self.input(scale + 1)) if name]
        self.nodes.append(helper.make_node("QuantizeLinear", [result, *parameters], [output], self.name))
        return self.nodes


Expander = Callable[[Expansion], list[NodeProto] | None]


def expand_qoperators(model: onnx.ModelProto, apart: ModelApart) -> onnx.ModelProto:
    """Return the model with operators on quantised numbers expanded, or the same object if there are none.

    ``apart`` has the constants that the model lacks. All nodes that replace a node have its name.
    """
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < _FIRST_WITH_QUANTIZATION or not any(_expander(node) for node in model.graph.node):
        return model
    of_nodes = zip(apart.nodes, apart.constants.values(), strict=True)
    known = {**_constants(model.graph), **apart.weights, **dict(of_nodes)}
    taken = tensor_names(model.graph) - apart.added
    expanded = onnx.ModelProto()
    expanded.CopyFrom(model)
    del expanded.graph.node[:]
    for index, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{index}"
        expansion = Expansion(node, name, known, opset, taken)
        expander = _expander(node)
        nodes = expander(expansion) if expander else None
        if nodes is None:
            expanded.graph.node.append(node)
            expanded.graph.node[-1].name = name
        else:
            expanded.graph.node.extend(nodes)
            arrays = expansion.constants.items()
            expanded.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in arrays)
    return expanded


def _constants(graph: onnx.GraphProto) -> dict[str, Array]:
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            known[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return known


def _expander(node: NodeProto) -> Expander | None:
    if node.domain == _CONTRIBUTED:
        return _OF_ONNX_RUNTIME.get(node.op_type)
    return None if node.domain not in ("", "ai.onnx") else _OF_ONNX.get(node.op_type)


def _conv(e: Expansion) -> list[NodeProto] | None:
    bias = e.sums(8, 1, 4)
    return None if bias is None else e.finish("Conv", [e.reals(0), e.reals(3, axis=0), bias], 6, **e.attributes())


def _matmul(e: Expansion) -> list[NodeProto] | None:
    return e.finish("MatMul", [e.reals(0), e.reals(3, axis=1)], 6)


def _gemm(e: Expansion) -> list[NodeProto] | None:
    attributes = e.attributes()
    added = e.sums(6, 1, 4, attributes.get("alpha", 1.0))
    if added is None:
        return None
    weights = e.reals(3, axis=0 if attributes.get("transB", 0) else 1)
    return e.finish("Gemm", [e.reals(0), weights, added], 7, **attributes)


def _pair(op_type: str) -> Expander:
    return lambda e: e.finish(op_type, [e.reals(0), e.reals(3)], 6)


def _single(op_type: str) -> Expander:
    def expand(e: Expansion) -> list[NodeProto] | None:
        attributes = e.attributes("channels_last")
        return None if e.attributes().get("channels_last", 0) else e.finish(op_type, [e.reals(0)], 3, **attributes)

    return expand


def _softmax(e: Expansion) -> list[NodeProto] | None:
    """Decline a QLinearSoftmax whose own opset disagrees with the model's on how many axes it normalises over."""
    own = e.attributes().get("opset", e.opset)
    if (own >= _SINGLE_AXIS_OPSET) != (e.opset >= _SINGLE_AXIS_OPSET):
        return None
    return e.finish("Softmax", [e.reals(0)], 3, **e.attributes("opset"))


def _concat(e: Expansion) -> list[NodeProto] | None:
    return e.finish("Concat", [e.reals(index) for index in range(2, len(e.node.input), 3)], 0, **e.attributes())


def _where(e: Expansion) -> list[NodeProto] | None:
    return e.finish("Where", [e.input(0), e.reals(1), e.reals(4)], 7)


def _same(e: Expansion) -> list[NodeProto] | None:
    return [helper.make_node(e.node.op_type, list(e.node.input), list(e.node.output), e.name, **e.attributes())]


_OF_ONNX: dict[str, Expander] = {"QLinearConv": _conv, "QLinearMatMul": _matmul}
_OF_ONNX_RUNTIME: dict[str, Expander] = {
    "DequantizeLinear": _same,
    "QGemm": _gemm,
    "QLinearAdd": _pair("Add"),
    "QLinearAveragePool": _single("AveragePool"),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _single("GlobalAveragePool"),
    "QLinearLeakyRelu": _single("LeakyRelu"),
    "QLinearMul": _pair("Mul"),
    "QLinearSigmoid": _single("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _where,
    "QuantizeLinear": _same,
}
