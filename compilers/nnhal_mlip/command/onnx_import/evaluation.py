"""Compute one node of an ONNX model: by ONNX Runtime, or by ONNX's reference for what the runtime lacks.

The reference comes second, since it takes some operators of older opsets for today's: Softmax before 13, say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nnhal.arrays import Array
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode, all_inputs
from nnhal_mlip.flow.errors import FlowError

_IR_VERSION = 10
_FATAL = 4


class NodeEvaluation:
    """Computes a node."""

    def __init__(self, graph: OnnxGraph, node: OnnxNode) -> None:
        self._place = f"node '{node.name}' ({node.op_type})"
        self._inputs = list(dict.fromkeys(name for name in node.inputs if name))
        self._given = [name for name in node.inputs if name]
        self._outputs = [name for name in node.outputs if name]
        self._imports = list(graph.imports)
        self._proto = _proto(node)
        self._session: onnxruntime.InferenceSession | None = None
        self._reference: ReferenceEvaluator | None = None

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Compute the results that have names, from the inputs that are given.

        Raises FlowError if neither the runtime nor the reference can.
        """
        arrays = dict(zip(self._given, inputs, strict=True))
        try:
            results: Any = self._by_runtime(arrays) if self._reference is None else self._by_reference(arrays)
        except Exception:  # neither raises errors of a type of its own
            try:
                results = self._by_reference(arrays)
            except Exception as error:
                raise FlowError(f"{self._place}: ONNX's reference cannot compute it: {error}") from error
        return [np.asarray(result) for result in results]

    def _by_runtime(self, arrays: dict[str, Array]) -> Any:
        if self._session is None:
            types = [helper.np_dtype_to_tensor_dtype(arrays[name].dtype) for name in self._inputs]
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = _FATAL
            content = self._model(types).SerializeToString()
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return self._session.run(self._outputs, arrays)

    def _by_reference(self, arrays: dict[str, Array]) -> Any:
        if self._reference is None:
            self._reference = ReferenceEvaluator(self._model([TensorProto.UNDEFINED] * len(self._inputs)))
        return self._reference.run(None, arrays)

    def _model(self, types: Sequence[int]) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, element_type, None)
            for name, element_type in zip(self._inputs, types, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self._outputs]
        graph = helper.make_graph([self._proto], self._proto.op_type, inputs, outputs)
        return helper.make_model(graph, opset_imports=self._imports, ir_version=_IR_VERSION)


def _proto(node: OnnxNode) -> onnx.NodeProto:
    """Return the model's own node, or one with what passes have changed."""
    if node.source is not None and all_inputs(node.source) == node.inputs:
        return node.source
    return helper.make_node(node.op_type, node.inputs, node.outputs, domain=node.domain, **node.attributes)
