"""Express nodes for which the HAL has no operation as operations of the extension nnhal.onnx."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from nnhal.extensions.onnx import NAME, NUMBERS
from nnhal_frontends.onnx.builder import OPERAND_TYPES, OnnxGraphBuilder
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode, TensorInfo, all_inputs, names_read

_IR_VERSION = 10
_WRAP = frozenset({"Abs", "Add", "Div", "Mod", "Mul", "Neg", "Pow", "Sub", "Sum"})
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


def set_aside(graph: OnnxGraph, names: Collection[str], known: Collection[str]) -> OnnxGraph:
    """Return the graph with nodes for the extension marked, so that the passes leave them alone.

    These are the nodes in ``names``, those of operators that are not ``known``, those with an input of unknown rank or
    one that the HAL has no operand for, and those with a different result in the HAL, whose 8-bit numbers do not wrap.
    """
    used = graph.uses()

    def alone(node: OnnxNode) -> OnnxNode:
        kept = node.op_type in known and not node.domain and node.name not in names
        return node if kept and _has_operands(graph, node) and not _wraps(graph, node) else _wrapped(node, used)

    return replace(graph, nodes=tuple(alone(node) for node in graph.nodes))


def whole(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with all nodes as one node of the extension."""
    protos = tuple(node.source for node in graph.nodes if node.source is not None)
    inputs = (*graph.inputs, *(name for name in names_read(protos) if name in graph.constants))
    outputs = tuple(graph.outputs.values())
    names = tuple(name for node in graph.nodes for name in node.stands_for)
    node = OnnxNode(
        names[0] if names else "model", "", inputs, outputs, _body(protos, inputs, outputs), NAME, stands_for=names
    )
    return replace(graph, nodes=(node,))


def add_extension_operation(builder: OnnxGraphBuilder, node: OnnxNode) -> None:
    """Add the operation for a node of the extension, or for one that a pass has made.

    Raises ValueError if a tensor's type is unknown or the HAL cannot hold it.
    """
    if node.domain != NAME:
        proto = helper.make_node(node.op_type, node.inputs, node.outputs, **node.attributes)
        node = replace(node, attributes=_body((proto,), node.inputs, node.outputs))
    formal = list(zip(node.attributes["inputs"], node.inputs, strict=True))
    held = [pair for pair in formal if _must_be_held(builder.graph, pair[1])]
    given = [pair for pair in formal if pair not in held]
    message = _message(builder.graph, node, given, held)
    inputs = [builder.exact(name) for _, name in given]
    builder.extension_operation(message, inputs, [builder.tensor(name) for name in node.outputs], node.stands_for)


def _has_operands(graph: OnnxGraph, node: OnnxNode) -> bool:
    """Return whether the HAL has operands for everything that a node reads, apart from constants."""
    infos = [graph.tensors.get(name) for name in node.inputs if name and name not in graph.constants]
    return all(
        info is not None and info.element_type in OPERAND_TYPES and info.shape is not None and not info.is_empty
        for info in infos
    )


def _wraps(graph: OnnxGraph, node: OnnxNode) -> bool:
    if node.op_type not in _WRAP:
        return False
    known = graph.constants.get(node.inputs[0])
    element_type = graph.tensors[node.inputs[0]].element_type if known is None else known.dtype
    return element_type in _BYTES


def _wrapped(node: OnnxNode, used: Collection[str]) -> OnnxNode:
    """Return a node as one of the extension, with what its subgraphs read from the graph among its inputs."""
    if node.source is None:
        return node
    current = dict(zip(all_inputs(node.source), node.inputs, strict=True))
    formal = tuple(name for name in dict.fromkeys(all_inputs(node.source)) if name)
    outputs = tuple(name for name in node.source.output if name in used)
    return replace(
        node,
        op_type="",
        domain=NAME,
        inputs=tuple(current[name] for name in formal),
        outputs=outputs,
        attributes=_body((node.source,), formal, outputs),
    )


def _body(
    protos: tuple[onnx.NodeProto, ...], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> dict[str, tuple[object, ...]]:
    return {"nodes": protos, "inputs": inputs, "outputs": outputs}


def _must_be_held(graph: OnnxGraph, name: str) -> bool:
    """Return whether a constant must lie in the message: the HAL has no operands of strings or without elements."""
    values = graph.constants.get(name)
    return values is not None and (values.size == 0 or values.dtype not in NUMBERS)


def _message(
    graph: OnnxGraph, node: OnnxNode, given: Iterable[tuple[str, str]], held: Iterable[tuple[str, str]]
) -> onnx.ModelProto:
    body = helper.make_graph(
        node.attributes["nodes"],
        node.name,
        [_declared(formal, _info(graph, name)) for formal, name in given],
        [_declared(f, _info(graph, name)) for f, name in zip(node.attributes["outputs"], node.outputs, strict=True)],
        [numpy_helper.from_array(graph.constants[name], formal) for formal, name in held],
    )
    return helper.make_model(body, opset_imports=graph.imports, ir_version=_IR_VERSION)


def _info(graph: OnnxGraph, name: str) -> TensorInfo:
    values = graph.constants.get(name)
    if values is not None:
        return TensorInfo(values.dtype, values.shape)
    if name not in graph.tensors:
        raise ValueError(f"the type of '{name}' is unknown")
    return graph.tensors[name]


def _declared(name: str, info: TensorInfo) -> onnx.ValueInfoProto:
    if info.proto is not None and (info.element_type.kind == "O" or info.shape is None):
        return helper.make_value_info(name, info.proto)
    element_type = helper.np_dtype_to_tensor_dtype(info.element_type)
    shape = None if info.shape is None else [length or None for length in info.shape]
    return helper.make_tensor_value_info(name, element_type, shape)
