"""RUN of nnhal.onnx: the nodes of a message, as a function that the graph calls.

A message's tensors are as ONNX has them: signed bytes, float16, rank 0. The graph keeps some operands in another form,
so they are converted on either side.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from onnx import TensorProto, TypeProto, ValueInfoProto

from nnhal.arrays import Array
from nnhal.extensions.onnx import ELEMENT_TYPES, VALUE, number_of
from nnhal.types import OperandType, Operation
from nnhal_devices.cpu_acc.elements import SIGN
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.messages import FUNCTION, decode, function_of, message_of
from nnhal_devices.cpu_acc.rectified import FIRST_OPSET, clamp_after_quantization


def run(graph: LoweredGraph, operation: Operation, number: int) -> None:
    """Lower one operation."""
    graph.place = f"operation {number} (RUN)"
    proto = decode(message_of(graph.model, operation), graph.opsets.get("", 0))
    inputs = [_given(graph, o, v) for o, v in zip(operation.inputs[1:], proto.graph.input, strict=True)]
    results = graph.call(function_of(proto, f"{FUNCTION}{number}", graph.opsets), inputs)
    for operand, declared, tensor in zip(operation.outputs, proto.graph.output, results, strict=True):
        _note_type(graph, operand, declared)
        graph.keep(operand, _kept(graph, operand, declared, tensor))


def run_alone(graph: LoweredGraph) -> None:
    """Lower a model that is one RUN: its nodes become the graph, and keep the names and types that they have.

    So ONNX Runtime optimises them as it would in a file. Only booleans, which are bytes in memory, and tensors of rank
    0, which are vectors of one element, are converted on their way from and to the caller's memory.
    """
    main = graph.model.model.main
    (operation,) = main.operations
    content = message_of(graph.model, operation)
    message = decode(content, graph.opsets.get("", 0)).graph
    graph.message = message
    graph.avoid(content)
    for operand, declared in zip(operation.inputs[1:], message.input, strict=True):
        if graph.is_constant(operand):
            values = _elements(graph, operand)
            graph.constants[declared.name] = values.reshape(()) if _is_scalar(declared.type) else values
        else:
            _note_type(graph, operand, declared)
            _from_memory(graph, operand, declared)
    if graph.opsets.get("", 0) >= FIRST_OPSET:
        clamp_after_quantization(message, graph.constants, graph.name)
    made = {name for node in message.node for name in node.output}
    results = dict(zip(operation.outputs, message.output, strict=True))
    for operand in main.output_indexes:
        _note_type(graph, operand, results[operand])
        _to_memory(graph, operand, results[operand], made)


def _from_memory(graph: LoweredGraph, operand: int, declared: ValueInfoProto) -> None:
    """Declare an input, under the name that the message has for it if it needs no conversion."""
    scalar, boolean = _is_scalar(declared.type), graph.operands[operand].type == OperandType.TENSOR_BOOL8
    tensor = graph.name() if scalar or boolean else declared.name
    graph.inputs[tensor] = operand
    if boolean:
        tensor = graph.add("Cast", tensor, to=TensorProto.BOOL)
    if scalar:
        tensor = graph.add("Reshape", tensor, graph.integers([]))
    if tensor != declared.name:
        graph.nodes[-1].outputs[:] = [declared.name]


def _to_memory(graph: LoweredGraph, operand: int, declared: ValueInfoProto, made: Container[str]) -> None:
    """Declare an output, under the name that the message has for it if a node makes it and it needs no conversion."""
    tensor = declared.name
    if graph.operands[operand].type == OperandType.TENSOR_BOOL8:
        tensor = graph.add("Cast", tensor, to=TensorProto.UINT8)
    if _is_scalar(declared.type):
        tensor = graph.add("Reshape", tensor, graph.integers([1]))
    if tensor == declared.name and (tensor not in made or tensor in graph.outputs):
        tensor = graph.add("Identity", tensor)
    graph.outputs[tensor] = operand


def _given(graph: LoweredGraph, operand: int, declared: ValueInfoProto) -> str:
    """The tensor of an input, in the form that the message declares."""
    code, scalar = graph.operands[operand].type, _is_scalar(declared.type)
    if graph.is_constant(operand):
        values = _elements(graph, operand)
        return graph.constant(values.reshape(()) if scalar else values)
    _note_type(graph, operand, declared)
    tensor = graph.kept(operand)
    if code == OperandType.TENSOR_FLOAT16:
        tensor = graph.add("Cast", tensor, to=TensorProto.FLOAT16)
    elif code == OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
        tensor = _shifted(graph, tensor, -int(SIGN), TensorProto.INT8)
    return graph.add("Reshape", tensor, graph.integers([])) if scalar else tensor


def _kept(graph: LoweredGraph, operand: int, declared: ValueInfoProto, tensor: str) -> str:
    """The tensor that the graph keeps for an output."""
    code = graph.operands[operand].type
    if code == OperandType.TENSOR_FLOAT16:
        tensor = graph.add("Cast", tensor, to=TensorProto.FLOAT)
    elif code == OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
        tensor = _shifted(graph, tensor, int(SIGN), TensorProto.UINT8)
    return graph.add("Reshape", tensor, graph.integers([1])) if _is_scalar(declared.type) else tensor


def _shifted(graph: LoweredGraph, tensor: str, offset: int, to: int) -> str:
    """Add an offset to a tensor of bytes, and convert it to another type of bytes."""
    wide = graph.add("Cast", tensor, to=TensorProto.INT32)
    return graph.add("Cast", graph.add("Add", wide, graph.constant(np.array(offset, np.int32))), to=to)


def _elements(graph: LoweredGraph, operand: int) -> Array:
    """A constant's elements. A constant of an extension's type comes as bytes."""
    values, given = graph.model.constants[0][operand], graph.operands[operand]
    number = number_of(graph.model.model, given.type)
    if number is not None:
        return values.view(ELEMENT_TYPES[number]).reshape(given.dimensions)
    return values.astype(np.bool_) if given.type == OperandType.TENSOR_BOOL8 else values


def _note_type(graph: LoweredGraph, operand: int, declared: ValueInfoProto) -> None:
    if number_of(graph.model.model, graph.operands[operand].type) == VALUE:
        graph.types[operand] = declared.type


def _is_scalar(declared: TypeProto) -> bool:
    """Return whether a type is a tensor of numbers of rank 0."""
    tensor = declared.tensor_type
    is_numeric = declared.WhichOneof("value") == "tensor_type" and tensor.elem_type != TensorProto.STRING
    return is_numeric and tensor.HasField("shape") and not tensor.shape.dim
