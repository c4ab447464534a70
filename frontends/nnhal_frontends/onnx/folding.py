"""Remove nodes whose results are constant, or are just their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nnhal.arrays import Array
from nnhal.extensions.onnx_corners import CORNERS
from nnhal.extensions.onnx_ranges import require_in_range
from nnhal_frontends.limits import DEFAULT_LIMITS, FoldingBudget, ImportLimits
from nnhal_frontends.onnx.folding_costs import cost_of
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode, constant_array

_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
LEFT = frozenset({"DequantizeLinear", *_RANDOM}).union(
    (
        "AveragePool",
        "BatchNormalization",
        "ConvTranspose",
        "Dropout",
        "GRU",
        "GlobalMaxPool",
        "GridSample",
        "Hardmax",
        "LRN",
        "LSTM",
        "LogSoftmax",
        "Optional",
    ),
    (
        "LpNormalization",
        "LpPool",
        "MaxPool",
        "NonMaxSuppression",
        "OneHot",
        "OptionalHasElement",
        "Pad",
        "RNN",
        "ReduceLogSum",
    ),
    (
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMin",
        "ReduceSumSquare",
        "Resize",
        "Softmax",
        "StringNormalizer",
        "RegexFullMatch",
        "RoiAlign",
        "SequenceInsert",
        "StringSplit",
        "Upsample",
    ),
)
"""Operators that are left to the devices: random numbers, and what ONNX's evaluator computes wrongly somewhere."""
_ASK_SHAPE_ONLY = frozenset({"Shape", "Size"})


def fold_constants(graph: OnnxGraph, limits: ImportLimits = DEFAULT_LIMITS) -> OnnxGraph:
    """Return the graph with every node computed whose inputs are all constant, as far as the limits allow.

    DequantizeLinear stays, for operations that can use the integers. So do nodes that exceed the limits, for the
    devices to compute.
    """
    given = {node.outputs[0]: array for node in graph.nodes if (array := _value_of(node)) is not None}
    own = [*graph.constants.values(), *given.values()]
    budget = FoldingBudget(limits, sum(array.nbytes for array in own), sum(array.size for array in own))
    constants = _Constants(graph, budget)
    constants.values.update(given)
    kept = tuple(node for node in graph.nodes if node.outputs[0] not in given and not constants.compute(graph, node))
    return replace(graph, nodes=kept, constants=constants.values)


class _Constants:
    """The constants of a graph while its nodes are computed. Those that nothing reads any more are dropped."""

    def __init__(self, graph: OnnxGraph, budget: FoldingBudget) -> None:
        self.values = dict(graph.constants)
        self._budget = budget
        self._unread = graph.uses()
        self._bytes: dict[str, int] = {}  # of the computed ones

    def compute(self, graph: OnnxGraph, node: OnnxNode) -> bool:
        """Compute a node if all of its inputs are known and the budget allows it. Return whether it was computed."""
        inputs = _known_inputs(graph, node, self.values)
        if inputs is None:
            return False
        model = _model(node, graph.opset)
        cost = cost_of(node, model.graph.node[0], graph.opset, inputs)
        if cost is None or not self._budget.admit(*cost):
            return False
        results = _evaluate(model, inputs)
        if results is None:
            self._budget.release(cost.result_bytes)
            return False
        self._add(node, results, cost.result_bytes)
        self._drop_read(node)
        return True

    def _add(self, node: OnnxNode, results: Sequence[Array], admitted: int) -> None:
        """Add the results of a node for which bytes have been admitted; it gives back what they do not take."""
        taken = 0
        for name, values in zip(node.outputs, results, strict=False):
            if self._unread[name]:
                self.values[name], self._bytes[name] = values, values.nbytes
                taken += values.nbytes
        self._budget.release(admitted - taken)

    def _drop_read(self, node: OnnxNode) -> None:
        """Note that a node has been computed; its inputs are dropped unless anything else reads them."""
        for name in node.inputs:
            self._unread[name] -= 1
            if not self._unread[name] and name in self.values:
                del self.values[name]
                self._budget.release(self._bytes.pop(name, 0))


def _value_of(node: OnnxNode) -> Array | None:
    """Return the array of a Constant with a dense tensor; None for other nodes."""
    value = node.attributes.get("value") if node.op_type == "Constant" and not node.domain else None
    return constant_array(value, node.outputs[0]) if isinstance(value, onnx.TensorProto) else None


def remove_identities(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph without nodes that pass their input through at inference."""
    uses = graph.uses()
    renamed: dict[str, str] = {}
    kept = []
    for node in graph.nodes:
        if not renamed.keys().isdisjoint(node.inputs):
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
    if node.domain or node.op_type in LEFT:
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


def _evaluate(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array] | None:
    """Return the results of a model's only node; None if the reference evaluator cannot compute it, or should not."""
    try:
        node = model.graph.node[0]
        require_in_range(
            node.op_type,
            [inputs.get(name) for name in node.input],
            {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute},
        )
        with np.errstate(all="ignore"):
            results: Any = ReferenceEvaluator(model, new_ops=[*CORNERS]).run(None, dict(inputs))
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
