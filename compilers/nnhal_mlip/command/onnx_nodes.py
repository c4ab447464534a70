"""Operations of the extension nnhal.onnx in the flow: the user's own nodes, as the flow has them or for the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import tensor_in_another_file
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_mlip.command.onnx_operators import CONVERTERS, OnnxOperator
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import SourceNode
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_operation import MessageOperand
from nnhal_mlip.importing.host_operations import dequantised, quantised

_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))
_FATAL = 4


def import_message(
    content: bytes,
    inputs: Sequence[MessageOperand],
    outputs: Sequence[MessageOperand],
    builder: FlowGraphBuilder,
    sources: tuple[SourceNode, ...],
) -> tuple[str, ...]:
    """Add the nodes of a message, and return the values of its results. Raises FlowError if it refers to a file."""
    message = onnx.ModelProto.FromString(content)
    if tensor_in_another_file(message) is not None:
        raise FlowError(f"node '{sources[0].name}': got values in another file, expected them in the message")
    kind = _kind(message.graph)
    if kind in CONVERTERS and len(outputs) == 1 and _is_plain(inputs):
        node, before = _operator(message.graph, inputs, builder, sources, outputs[0].label), builder.count
        result = CONVERTERS[kind](node)
        if result is not None:
            result = builder.renamed(result, node.label, before)
            if not builder.values[result].shape:  # the HAL has an axis of length 1 instead
                result = node.add(Operator.RESHAPE, result, attributes={"newshape": (1,)})
            return (result,)
    first = builder.add(
        f"onnx.{kind}",
        [each.value for each in inputs if each.value is not None and each.constant is None],
        sources=sources,
        evaluate=_HostNode(message, inputs, outputs, f"node '{sources[0].name}' ({kind})"),
        results=[each.type for each in outputs],
        names=[each.label for each in outputs],
    )
    return builder.outputs_of(first)


def _kind(graph: onnx.GraphProto) -> str:
    """Return the operator of the only node, with its domain unless that is ONNX's own; Model for several nodes."""
    if len(graph.node) != 1:
        return "Model"
    (node,) = graph.node
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _is_plain(inputs: Sequence[MessageOperand]) -> bool:
    """Return whether the first input is computed, and all that are have floats of one type and known shapes."""
    computed = [each.type for each in inputs if each.constant is None]
    types = {value.element_type for value in computed}
    known = all(0 not in value.shape for value in computed)
    return inputs[0].constant is None and len(types) == 1 and types <= set(_FLOATS) and known


def _operator(
    graph: onnx.GraphProto,
    inputs: Sequence[MessageOperand],
    builder: FlowGraphBuilder,
    sources: tuple[SourceNode, ...],
    label: str,
) -> OnnxOperator:
    (node,) = graph.node
    values: dict[str, str | Array | None] = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for declared, given in zip(graph.input, inputs, strict=True):
        values[declared.name] = given.value if given.constant is None else _as_declared(declared, given.constant)
    attributes = {attribute.name: _decoded(helper.get_attribute_value(attribute)) for attribute in node.attribute}
    return OnnxOperator(builder, [values.get(name) for name in node.input], attributes, sources, label)


def _decoded(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


class _HostNode:
    """Computes a message from the real numbers of those inputs that are no constants."""

    def __init__(
        self,
        message: onnx.ModelProto,
        inputs: Sequence[MessageOperand],
        outputs: Sequence[MessageOperand],
        place: str,
    ) -> None:
        """``place`` is the user's name of the node, for errors."""
        self._message, self._inputs, self._outputs, self._place = message, inputs, outputs, place

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the real numbers of the results. Raises FlowError if ONNX Runtime cannot compute them."""
        computed = iter(arrays)
        fed = {
            value.name: _as_declared(value, _elements(given, next(computed) if given.constant is None else None))
            for value, given in zip(self._message.graph.input, self._inputs, strict=True)
        }
        try:
            results: Any = self._session.run(None, fed)
        except Exception as error:  # ONNX Runtime's errors have no type in common
            raise FlowError(f"{self._place}: ONNX Runtime cannot compute it: {error}") from error
        pairs = zip(self._outputs, results, strict=True)
        return [dequantised(made.operand, np.atleast_1d(array)) for made, array in pairs]

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = _FATAL
        content = self._message.SerializeToString()
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _elements(given: MessageOperand, computed: Array | None) -> Array:
    if computed is None:
        assert given.constant is not None
        return given.constant
    return quantised(given.operand, computed) if given.operand.type in ELEMENT_TYPES else computed


def _as_declared(value: onnx.ValueInfoProto, array: Array) -> Array:
    """Return an array in the type that the graph has for it, without the axis that the HAL gives to scalars."""
    kind = value.type.tensor_type
    scalar = kind.HasField("shape") and not kind.shape.dim and array.size == 1
    shaped = array.reshape(()) if scalar else array
    return shaped.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type), copy=False) if kind.elem_type else shaped
