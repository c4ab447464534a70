"""Remove nodes whose results are constant, or are just their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nnhal.arrays import Array
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode

_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_LEFT = frozenset({"DequantizeLinear", *_RANDOM})
_ASK_SHAPE_ONLY = frozenset({"Shape", "Size"})


def fold_constants(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with every node computed whose inputs are all constant.

    DequantizeLinear stays, for operations that can use the integers.
    """
    constants = dict(graph.constants)
    kept = []
    for node in graph.nodes:
        inputs = _known_inputs(graph, node, constants)
        values = None if inputs is None else _evaluate(node, graph.opset, inputs)
        if values is None:
            kept.append(node)
        else:
            constants.update(zip(node.outputs, values, strict=False))
    return replace(graph, nodes=tuple(kept), constants=constants)


def remove_identities(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph without nodes that pass their input through at inference."""
    uses = graph.uses()
    renamed: dict[str, str] = {}
    kept = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        if _is_identity(graph, node) and not any(uses[name] for name in node.outputs[1:]):
            renamed[node.outputs[0]] = node.inputs[0]
        else:
            kept.append(node)
    outputs = {user: renamed.get(name, name) for user, name in graph.outputs.items()}
    return replace(graph, nodes=tuple(kept), outputs=outputs)


def _is_identity(graph: OnnxGraph, node: OnnxNode) -> bool:
    if node.op_type == "Dropout":
        training = node.input(2)
        return not training or (training in graph.constants and not graph.constants[training])
    return node.op_type == "Identity"


def _known_inputs(graph: OnnxGraph, node: OnnxNode, constants: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return arrays for a node's inputs; None if the node must not or cannot be computed."""
    if node.domain or node.op_type in _LEFT:
        return None
    if any(isinstance(value, onnx.GraphProto) for value in node.attributes.values()):
        return None
    if node.op_type in _ASK_SHAPE_ONLY and node.inputs[0] not in constants:
        shape = graph.shape(node.inputs[0])
        if shape is None or 0 in shape:
            return None
        return {node.inputs[0]: np.broadcast_to(np.float32(0), shape)}
    names = [name for name in node.inputs if name]
    return {name: constants[name] for name in names} if all(name in constants for name in names) else None


def _evaluate(node: OnnxNode, opset: int, inputs: Mapping[str, Array]) -> list[Array] | None:
    """Return a node's results; None if the reference evaluator cannot compute it, so that the node stays."""
    try:
        results: Any = ReferenceEvaluator(_model(node, opset)).run(None, dict(inputs))
    except Exception:  # the evaluator raises errors of any type
        return None
    return [np.asarray(result) for result in results]


def _model(node: OnnxNode, opset: int) -> onnx.ModelProto:
    proto = helper.make_node(node.op_type, node.inputs, node.outputs, **node.attributes)
    # The reference evaluator does not need the types and shapes of a graph's inputs and outputs.
    graph = helper.make_graph(
        [proto],
        node.name,
        [
            helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
            for name in dict.fromkeys(node.inputs)
            if name
        ],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.outputs if name],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
