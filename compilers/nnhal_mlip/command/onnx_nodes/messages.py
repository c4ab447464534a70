"""Messages of the extension nnhal.onnx: what a node reads and writes, as operands of the HAL."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper, numpy_helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import tensor_in_another_file
from nnhal.types import Operand
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_mlip.command.onnx_nodes.converters import import_node
from nnhal_mlip.command.onnx_nodes.evaluation import MessageEvaluation, as_declared
from nnhal_mlip.command.onnx_nodes.node_import import NodeImport
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import SourceNode
from nnhal_mlip.importing.hal_operation import MessageOperand
from nnhal_mlip.importing.host_operations import dequantised, quantised


def import_message(
    content: bytes,
    inputs: Sequence[MessageOperand],
    outputs: Sequence[MessageOperand],
    builder: FlowGraphBuilder,
    sources: tuple[SourceNode, ...],
) -> tuple[str, ...]:
    """Add the nodes of a message, and return the values of its results. Raises FlowError if it refers to a file."""
    message = onnx.ModelProto.FromString(content)
    graph = message.graph
    if tensor_in_another_file(message) is not None:
        raise FlowError(f"node '{sources[0].name}': got values in another file, expected them in the message")
    named = dict(zip((value.name for value in graph.input), inputs, strict=True))
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    fed = {
        value.name: as_declared(value, given.constant)
        for value, given in zip(graph.input, inputs, strict=True)
        if given.constant is not None
    }
    made = dict(zip((value.name for value in graph.output), outputs, strict=True))
    (node,) = graph.node if len(graph.node) == 1 else (onnx.NodeProto(op_type="Model", input=named, output=made),)
    labels = {name: name for name in (*held, *node.output)}
    labels.update((name, given.label) for name, given in (*named.items(), *made.items()))
    each = NodeImport(
        builder,
        ".".join(filter(None, ("" if node.domain == "ai.onnx" else node.domain, node.op_type))),
        tuple(dict.fromkeys((*node.input, *named))) if _has_graphs(node) else tuple(node.input),
        tuple(node.output),
        {attribute.name: _text(helper.get_attribute_value(attribute)) for attribute in node.attribute},
        next((entry.version for entry in message.opset_import if entry.domain in ("", "ai.onnx")), 0),
        sources,
        {**held, **fed},
        {name: given.value for name, given in named.items() if given.value is not None and given.constant is None},
        labels,
        {name: given.type for name, given in named.items() if given.constant is None},
        {name: given.type for name, given in made.items()},
    )
    place = f"node '{sources[0].name}' ({each.op_type})" if sources else each.op_type
    computed = [given.operand for given in inputs if given.constant is None]
    inner = MessageEvaluation(message, fed, place)

    def evaluate(arrays: Sequence[Array]) -> list[Array]:
        own = [_own(operand, array) for operand, array in zip(computed, arrays, strict=True)]
        return [dequantised(given.operand, array) for given, array in zip(outputs, inner(own), strict=True)]

    return import_node(each, evaluate)


def _own(operand: Operand, array: Array) -> Array:
    return quantised(operand, array) if operand.type in ELEMENT_TYPES else array


def _has_graphs(node: onnx.NodeProto) -> bool:
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)


def _text(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return [_text(each) for each in value] if isinstance(value, list) else value
