"""Nodes that Relay has no operator for: the host computes them, as the reference of ONNX does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nnhal.arrays import Array
from nnhal_devices.mlip.flow.graph.errors import FlowError
from nnhal_devices.mlip.flow.graph.flow_graph import FlowValue
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode, all_inputs
from nnhal_tools.mlip.onnx_import.node_import import NodeImport


class HostEvaluation:
    """Computes a node with the reference evaluator of ONNX."""

    def __init__(self, graph: OnnxGraph, node: OnnxNode) -> None:
        self._name = f"node '{node.name}' ({node.op_type})"
        self._inputs = [name for name in node.inputs if name]
        self._outputs = [name for name in node.outputs if name]
        names = list(dict.fromkeys(self._inputs))
        only = helper.make_graph(
            [_proto(node)],
            node.op_type,
            [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in names],
            [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in self._outputs],
        )
        self._model = helper.make_model(only, opset_imports=list(graph.imports))

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Compute the results that are named. Raises FlowError if the reference cannot."""
        try:
            results: Any = self._evaluator.run(None, dict(zip(self._inputs, inputs, strict=True)))
        except Exception as error:  # the evaluator raises errors of any type
            raise FlowError(f"{self._name}: the reference of ONNX cannot compute it: {error}") from error
        return [np.asarray(result) for result in results]

    @cached_property
    def _evaluator(self) -> ReferenceEvaluator:
        return ReferenceEvaluator(self._model)


def add_host_node(each: NodeImport) -> None:
    """Add a node as an operator that only the host has. Raises FlowError if the type of a result is not known."""
    node = each.node
    outputs = [name for name in node.outputs if name]
    operator = ".".join(filter(None, ("onnx", node.domain, node.op_type)))
    first = each.builder.add(
        operator,
        each.inputs(),
        sources=(each.source,),
        evaluate=HostEvaluation(each.graph, node),
        results=[_type(each, name) for name in outputs],
        names=outputs,
    )
    each.names.update(zip(outputs, each.builder.outputs_of(first), strict=True))


def dequantised(graph: OnnxGraph, node: OnnxNode) -> Array | None:
    """Return the result of a DequantizeLinear of constants; None for any other node."""
    if node.op_type != "DequantizeLinear" or any(name and name not in graph.constants for name in node.inputs):
        return None
    return HostEvaluation(graph, node)([graph.constants[name] for name in node.inputs if name])[0]


def _type(each: NodeImport, name: str) -> FlowValue:
    info = each.graph.tensors.get(name)
    if info is None or info.shape is None or info.element_type.hasobject:
        got = "no type" if info is None else "no rank" if info.shape is None else "no tensor of numbers"
        raise FlowError(
            f"node '{each.node.name}' ({each.node.op_type}): got {got} for its result '{name}', expected a tensor of"
            " known type and rank"
        )
    return FlowValue(info.shape, info.element_type)


def _proto(node: OnnxNode) -> onnx.NodeProto:
    """Return the model's own node, or one with what passes have changed."""
    if node.source is not None and all_inputs(node.source) == node.inputs:
        return node.source
    return helper.make_node(node.op_type, node.inputs, node.outputs, domain=node.domain, **node.attributes)
