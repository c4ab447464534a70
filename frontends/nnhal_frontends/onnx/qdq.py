"""Make quantised operations from QuantizeLinear and DequantizeLinear.

In such models an operation computes with floats between DequantizeLinear and QuantizeLinear. If the NN HAL has the
operation in quantised form, it takes the integers themselves; otherwise the two nodes stay, as DEQUANTIZE and QUANTIZE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from nnhal.arrays import Array
from nnhal_frontends.limits import DEFAULT_LIMITS, ImportLimits
from nnhal_frontends.onnx.fusion import padding_value
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode, OnnxQuantization, TensorInfo

_WIDENING = 4
"""How much longer a float is than a byte."""
_QUANT8 = (np.dtype(np.uint8), np.dtype(np.int8))
_MOVE_DATA = frozenset(
    {
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GlobalMaxPool",
        "MaxPool",
        "ReduceMax",
        "ReduceMin",
        "Relu",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
_MOVE_REALS = frozenset({"Pad", "Relu"})
"""Of these, and of Pad, those for which the 0 of integers is not that of the reals which they stand for."""
_ENDS = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Operators that mark a tensor as quantised. A graph without them has no quantised tensors."""


@dataclass(frozen=True, slots=True)
class QuantizedForm:
    """A node between DequantizeLinear and QuantizeLinear.

    ``inputs`` has the quantisation of each input, None for an input that is left out or has floats.
    """

    graph: OnnxGraph
    node: OnnxNode
    inputs: tuple[OnnxQuantization | None, ...]
    output: OnnxQuantization

    def quant8(self, *indexes: int) -> bool:
        """Return whether these inputs and the output have 8 bits of one type, and one scale each."""
        operands = [self.output, *(self.inputs[index] if index < len(self.inputs) else None for index in indexes)]
        return all(q is not None and is_quant8(q) and q.element_type == self.output.element_type for q in operands)

    def constant(self, index: int) -> Array | None:
        """Return the array of an input, with integers if it is quantised; None if it is not constant."""
        return self.graph.constants.get(self.node.input(index))


QuantizationRule = Callable[[QuantizedForm], bool]
"""True if the NN HAL has a node in this quantised form."""


def is_quant8(quantization: OnnxQuantization) -> bool:
    """Return whether values have 8 bits and one scale."""
    return quantization.element_type in _QUANT8 and quantization.axis is None


def real_values(values: Array, quantization: OnnxQuantization, precision: DTypeLike = np.float64) -> Array:
    """Return the reals that integers stand for."""
    shape = [1] * values.ndim
    if quantization.axis is not None:
        shape[quantization.axis] = -1
    scales = np.array(quantization.scales, precision).reshape(shape)
    zero_points = np.array(quantization.zero_points, precision).reshape(shape)
    reals: Array = values.astype(precision)
    reals -= zero_points
    reals *= scales
    return reals


def fold_quantization(
    graph: OnnxGraph, rules: Mapping[str, QuantizationRule], limits: ImportLimits = DEFAULT_LIMITS
) -> OnnxGraph:
    """Return the graph with nodes in quantised form if ``rules``, by operator, allow it."""
    if not any(node.op_type in _ENDS for node in graph.nodes):
        return graph.without_unused()
    graph = _spread(_record(graph))
    graph = _move_dequantization(graph)
    graph = _fold(graph, rules)
    return _dequantize_constants(graph, limits).without_unused()


def with_real_constants(graph: OnnxGraph, limits: ImportLimits = DEFAULT_LIMITS) -> OnnxGraph:
    """Return the graph with the quantisation of its tensors, and with constants dequantised as far as limits allow."""
    return _dequantize_constants(_record(graph), limits).without_unused()


def contradicting(graph: OnnxGraph) -> set[str]:
    """Return the names of the nodes that read a tensor with another scale or zero point than it has."""
    known: dict[str, OnnxQuantization] = {}
    return {node.name for node, name, found in _quantizations(graph) if known.setdefault(name, found) != found}


def _record(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with the quantisation of its tensors."""
    known: dict[str, OnnxQuantization] = dict(graph.quantization)
    for node, name, found in _quantizations(graph):
        if known.setdefault(name, found) != found:
            raise node.unsupported(f"'{name}' is read with another scale or zero point than it has", "one of each")
    return replace(graph, quantization=known)


def _spread(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with the quantisation of tensors of integers that are only moved: it is that of their source.

    The source may have it from what it is moved to, such as an input that is transposed and then dequantised.
    """
    known = dict(graph.quantization)
    uses = graph.uses()
    moving = [(node, _moved(graph, node)) for node in graph.nodes if node.op_type not in _MOVE_REALS]
    for node, sources in moving:
        found = {known.get(name) for name in sources}
        for output in filter(None, node.outputs):
            _take_over(graph, known, output, found)
    for node, sources in reversed(moving):
        found = {known.get(name) for name in node.outputs if name}
        for source in sources:
            if uses[source] == 1:
                _take_over(graph, known, source, found)
    return replace(graph, quantization=known)


def _take_over(
    graph: OnnxGraph, known: dict[str, OnnxQuantization], name: str, found: set[OnnxQuantization | None]
) -> None:
    """Note the quantisation of a tensor without one: the only one that is found."""
    (quantization,) = found if len(found) == 1 else (None,)
    if name in known or name in graph.constants or quantization is None or not is_quant8(quantization):
        return
    if name in graph.tensors and graph.tensors[name].element_type == quantization.element_type:
        known[name] = quantization


def _quantizations(graph: OnnxGraph) -> Iterator[tuple[OnnxNode, str, OnnxQuantization]]:
    """Yield each node that gives a tensor a quantisation, the tensor, and the quantisation."""
    for node in graph.nodes:
        if node.op_type in _ENDS:
            name = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
            found = _quantization_of(graph, node, name)
            if found is not None:
                yield node, name, found


def _quantization_of(graph: OnnxGraph, node: OnnxNode, name: str) -> OnnxQuantization | None:
    """Return the parameters of a node; None if they are not constant or come in blocks."""
    scale = graph.constants.get(node.inputs[1])
    zero_point = graph.constants.get(node.input(2)) if node.input(2) else np.zeros((), np.uint8)
    if scale is None or zero_point is None or node.attributes.get("block_size", 0):
        return None
    element_type = graph.constants[name].dtype if name in graph.constants else graph.tensors[name].element_type
    if element_type.kind not in "iu":
        return None
    scales = tuple(float(s) for s in scale.reshape(-1))
    zero_points = tuple(int(z) for z in zero_point.reshape(-1))
    if len(scales) == 1:
        return OnnxQuantization(element_type, scales, zero_points[:1])
    axis = int(node.attributes.get("axis", 1))
    rank = len(graph.shape(name) or ())
    return OnnxQuantization(
        element_type, scales, zero_points * (len(scales) // len(zero_points)), axis + rank if axis < 0 else axis
    )


def _move_dequantization(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with DequantizeLinear moved behind nodes that only move values or pick some of them."""
    tensors, quantization = dict(graph.tensors), dict(graph.quantization)
    sources: dict[str, OnnxNode] = {}
    nodes = []
    for node in graph.nodes:
        dequantized = [sources[name] for name in _moved(graph, node) if name in sources]
        if not dequantized or len(dequantized) < len(_moved(graph, node)):
            nodes.append(node)
            if node.op_type == "DequantizeLinear" and node.inputs[0] in quantization:
                sources[node.outputs[0]] = node
            continue
        first = dequantized[0]
        common = {quantization[source.inputs[0]] for source in dequantized}
        if len(common) > 1 or not is_quant8(quantization[first.inputs[0]]):
            nodes.append(node)
            continue
        moved = tuple(source.inputs[0] for source in dequantized)
        names = {output: graph.fresh(f"{output}/quantized") for output in node.outputs if output}
        inputs, outputs = (*moved, *node.inputs[len(moved) :]), tuple(names.get(output, "") for output in node.outputs)
        nodes.append(replace(node, inputs=inputs, outputs=outputs))
        for output, name in names.items():
            quantization[name] = quantization[first.inputs[0]]
            tensors[name] = TensorInfo(quantization[name].element_type, graph.shape(output))
            sources[output] = replace(first, inputs=(name, *first.inputs[1:]), outputs=(output,))
            nodes.append(sources[output])
    return replace(graph, nodes=tuple(nodes), tensors=tensors, quantization=quantization)


def _moved(graph: OnnxGraph, node: OnnxNode) -> tuple[str, ...]:
    """Return the inputs whose values a node only moves; empty if it does anything else with them."""
    if any(node.outputs[1:]) and node.op_type != "Split":
        return ()
    if node.op_type == "Concat":
        return node.inputs
    if node.op_type == "Pad":
        fills_zero = node.attributes.get("mode", "constant") != "constant" or padding_value(graph, node) == 0
        return node.inputs[:1] if fills_zero else ()
    if node.op_type == "Resize":
        return node.inputs[:1] if node.attributes.get("mode", "nearest") == "nearest" else ()
    return node.inputs[:1] if node.op_type in _MOVE_DATA else ()


def _fold(graph: OnnxGraph, rules: Mapping[str, QuantizationRule]) -> OnnxGraph:
    sources = {node.outputs[0]: node for node in graph.nodes if node.op_type == "DequantizeLinear"}
    sources = {name: node for name, node in sources.items() if node.inputs[0] in graph.quantization}
    consumers = graph.consumers()
    renamed: dict[str, str] = {}
    nodes: dict[str, OnnxNode] = {}
    for original in graph.nodes:
        if original.outputs[0] in renamed:
            continue
        node = original
        if not renamed.keys().isdisjoint(node.inputs):
            node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        if node.outputs[0] in sources:
            sources[node.outputs[0]] = node
        if node.op_type == "QuantizeLinear" and node.inputs[0] in sources:
            node, source = _requantized(graph, node, sources[node.inputs[0]])
            if node.op_type == "Identity":
                renamed[node.outputs[0]] = source
                if source in nodes:
                    nodes[source] = replace(nodes[source], stands_for=_joined(nodes[source], node))
                continue
        quantizing = _quantizing(graph, node, consumers)
        if quantizing and node.op_type in rules:
            folded = _quantized(graph, node, sources, quantizing[0], rules[node.op_type])
            if folded is not None:
                renamed.update((other.outputs[0], folded.outputs[0]) for other in quantizing)
                node = replace(folded, stands_for=_joined(folded, *quantizing[1:]))
        nodes[node.outputs[0]] = node
    outputs = {user: renamed.get(name, name) for user, name in graph.outputs.items()}
    return replace(graph, nodes=tuple(nodes.values()), outputs=outputs)


def _requantized(graph: OnnxGraph, node: OnnxNode, source: OnnxNode) -> tuple[OnnxNode, str]:
    """Return a QuantizeLinear behind DequantizeLinear as one node over the integers, and these integers.

    The node is an Identity if the quantisation does not change.
    """
    integers = source.inputs[0]
    before, after = graph.quantization[integers], graph.quantization.get(node.outputs[0])
    joined = replace(node, inputs=(integers, *node.inputs[1:]), stands_for=_joined(source, node))
    if after == before:
        return replace(joined, op_type="Identity"), integers
    if after is not None and is_quant8(before) and is_quant8(after) and before.element_type == after.element_type:
        return joined, integers
    return node, integers


def _quantizing(graph: OnnxGraph, node: OnnxNode, consumers: Mapping[str, list[OnnxNode]]) -> list[OnnxNode]:
    """Return the nodes that quantise a node's only result, all in the same way; empty if anything else reads it."""
    output = node.outputs[0]
    readers = consumers.get(output, [])
    if output in graph.outputs.values() or any(node.outputs[1:]):
        return []
    if not all(reader.op_type == "QuantizeLinear" and reader.inputs[0] == output for reader in readers):
        return []
    found = {graph.quantization.get(reader.outputs[0]) for reader in readers}
    return [] if None in found or len(found) != 1 else readers


def _quantized(
    graph: OnnxGraph, node: OnnxNode, sources: Mapping[str, OnnxNode], quantizing: OnnxNode, rule: QuantizationRule
) -> OnnxNode | None:
    """Return a node that takes and gives integers; None if the NN HAL has it only for floats."""
    behind = {name: sources[name] for name in node.inputs if name in sources}
    inputs = tuple(behind[name].inputs[0] if name in behind else name for name in node.inputs)
    folded = replace(
        node, inputs=inputs, outputs=quantizing.outputs, stands_for=_joined(node, *behind.values(), quantizing)
    )
    known = tuple(graph.quantization[behind[name].inputs[0]] if name in behind else None for name in node.inputs)
    if not behind or not rule(QuantizedForm(graph, folded, known, graph.quantization[quantizing.outputs[0]])):
        return None
    return folded


def _joined(*nodes: OnnxNode) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for node in nodes for name in node.stands_for))


def _precision(values: Array, element_type: np.dtype[np.generic]) -> DTypeLike:
    """Return the type to compute reals in: a difference of short integers is exact in float32, and so is a product."""
    return np.float32 if element_type == np.float32 and values.dtype.itemsize <= 2 else np.float64


def _dequantize_constants(graph: OnnxGraph, limits: ImportLimits) -> OnnxGraph:
    """Return the graph with constants dequantised that are still read as floats, as far as the limits allow."""
    constants = dict(graph.constants)
    left = limits.folded_bytes + _WIDENING * sum(values.nbytes for values in graph.constants.values())
    kept = []
    for node in graph.nodes:
        values, quantization = graph.constants.get(node.input(0)), graph.quantization.get(node.input(0))
        if node.op_type != "DequantizeLinear" or values is None or quantization is None:
            kept.append(node)
            continue
        element_type = graph.constants[node.inputs[1]].dtype
        size = values.size * element_type.itemsize
        if size > left:
            kept.append(node)
            continue
        left -= size
        constants[node.outputs[0]] = real_values(values, quantization, _precision(values, element_type)).astype(
            element_type, copy=False
        )
    return replace(graph, nodes=tuple(kept), constants=constants)
