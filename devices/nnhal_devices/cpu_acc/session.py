"""From a lowered graph to a session of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as binding

from nnhal.arrays import Array
from nnhal.errors import general_failure
from nnhal_devices.cpu_acc.elements import MEMORY_TYPES
from nnhal_devices.cpu_acc.graph import Graph
from nnhal_devices.cpu_acc.precision import sums_saturate

OPSET = 21
IR_VERSION = 10
"""The first that knows opset 21."""
INLINE_BYTES = 1024
"""Constants up to this size go into the model; larger ones are handed over by reference."""
_ERRORS_ONLY = 3

RUNTIME_ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    ValueError,
    binding.Fail,
    binding.InvalidArgument,
    binding.InvalidGraph,
    binding.InvalidProtobuf,
    binding.NotImplemented,
    binding.RuntimeException,
)
"""What ONNX Runtime raises."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session, and the constants that it reads in place: they must live as long."""

    runtime: onnxruntime.InferenceSession
    constants: tuple[onnxruntime.OrtValue, ...]


def create_session(graph: Graph, threads: int) -> Session:
    """Compile a finished graph. Raises GENERAL_FAILURE where ONNX Runtime refuses it."""
    large = {name: np.asarray(a, order="C") for name, a in graph.constants.items() if a.nbytes > INLINE_BYTES}
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in large.items()}
    options = _options(threads)
    options.add_external_initializers(list(values), list(values.values()))
    model = _model(graph, large)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except RUNTIME_ERRORS as error:
        general_failure(f"ONNX Runtime refused the model: {error}")
    return Session(session, tuple(values.values()))


def _options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Other devices and the service share the cores: threads that wait must not burn them.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if sums_saturate():
        # Signed weights become unsigned: slower, but exact.
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def _model(graph: Graph, large: Iterable[str]) -> ModelProto:
    nodes = [
        helper.make_node(
            node.type, node.inputs, node.outputs, f"{node.place} {number}", None, None, None, **node.attributes
        )
        for number, node in enumerate(graph.nodes)
    ]
    initializers = [
        _external(name, array) if name in large else numpy_helper.from_array(np.asarray(array, order="C"), name)
        for name, array in graph.constants.items()
    ]
    body = helper.make_graph(
        nodes,
        "main",
        [_input(graph, name, operand) for name, operand in graph.inputs.items()],
        [_value(graph, name, operand, None) for name, operand in graph.outputs.items()],
        initializers,
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _input(graph: Graph, name: str, operand: int) -> ValueInfoProto:
    shape = [length or f"{name}_axis{axis}" for axis, length in enumerate(graph.dimensions[operand])]
    return _value(graph, name, operand, shape)


def _value(graph: Graph, name: str, operand: int, shape: list[int | str] | None) -> ValueInfoProto:
    element = MEMORY_TYPES[graph.operands[operand].type]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(element), shape)


def _external(name: str, array: Array) -> TensorProto:
    """A constant without its data: the session options have that under the same name."""
    tensor = TensorProto(
        name=name,
        dims=array.shape,
        data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
        data_location=TensorProto.EXTERNAL,
    )
    tensor.external_data.add(key="location", value=name)
    return tensor
