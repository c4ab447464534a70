"""Nodes that Relay has no operator for, which are left to the host."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode
from nnhal_mlip.command.onnx_import.evaluation import NodeEvaluation
from nnhal_mlip.command.onnx_import.node_import import NodeImport
from nnhal_mlip.flow.graph.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import FlowValue


def add_host_node(each: NodeImport) -> None:
    """Add a node as an operator that only the host has. Raises FlowError if the type of a result is not known."""
    node = each.node
    outputs = [name for name in node.outputs if name]
    evaluation = NodeEvaluation(each.graph, node)
    results = [_type(each, name) for name in outputs]
    if not each.agrees():
        results = _found(each, evaluation)
    first = each.builder.add(
        ".".join(filter(None, ("onnx", node.domain, node.op_type))),
        each.inputs(),
        sources=(each.source,),
        evaluate=evaluation,
        results=results,
        names=outputs,
    )
    each.names.update(zip(outputs, each.builder.outputs_of(first), strict=True))


def dequantised(graph: OnnxGraph, node: OnnxNode) -> Array | None:
    """Return the result of a DequantizeLinear of constants; None for any other node."""
    if node.op_type != "DequantizeLinear" or any(name and name not in graph.constants for name in node.inputs):
        return None
    return NodeEvaluation(graph, node)([graph.constants[name] for name in node.inputs if name])[0]


def _type(each: NodeImport, name: str) -> FlowValue:
    info = each.graph.tensors.get(name)
    if info is None or info.shape is None or info.element_type.hasobject:
        got = "no type" if info is None else "no rank" if info.shape is None else "no tensor of numbers"
        raise FlowError(
            f"node '{each.node.name}' ({each.node.op_type}): got {got} for its result '{name}', expected a tensor of"
            " known type and rank"
        )
    return FlowValue(info.shape, info.element_type)


def _found(each: NodeImport, evaluation: NodeEvaluation) -> list[FlowValue]:
    """Return the types of the results for inputs of zeros."""
    names = each.inputs()
    values = [each.builder.values[name] for name in names]
    zeros = [
        each.builder.constants.get(name, np.zeros(value.shape, value.element_type))
        for name, value in zip(names, values, strict=True)
    ]
    return [FlowValue(array.shape, array.dtype) for array in evaluation(zeros)]
