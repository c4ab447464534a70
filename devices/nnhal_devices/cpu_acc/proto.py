"""A lowered graph as an ONNX model."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    inliner,
    numpy_helper,
)

from nnhal.extensions.onnx import FILE_KEY
from nnhal_devices.cpu_acc.graph import Attribute, LoweredGraph

_NUMBER = re.compile(r"__\d+(?:_\d+)?$")
IR_VERSION = 10
"""The first version that has opset 21."""


def model_of(graph: LoweredGraph, apart: Collection[str] = ()) -> ModelProto:
    """The model of a finished graph. The session has to be given the data of the constants in ``apart``.

    Messages are made where they stay: making them apart and adding them then takes three times as long.
    """
    model = ModelProto(ir_version=IR_VERSION, functions=graph.functions)
    called = {node.domain: 1 for node in graph.nodes if node.domain}
    for domain, version in {**called, **graph.opsets}.items():
        model.opset_import.add(domain=domain, version=version)
    _fill(model.graph, graph, "main", apart)
    if graph.message is not None:
        model.graph.node.extend(graph.message.node)
        model.graph.initializer.extend(graph.message.initializer)
        model.graph.sparse_initializer.extend(graph.message.sparse_initializer)
    model.graph.input.extend(_value(graph, name, operand) for name, operand in graph.inputs.items())
    _name_skipped_outputs(model.graph)
    # ONNX Runtime inlines too, but fails on functions in functions.
    return _inlined(model) if graph.functions else model


def _fill(body: GraphProto, graph: LoweredGraph, name: str, apart: Collection[str] = ()) -> None:
    """Write a graph's nodes, constants and outputs. A branch has no inputs: it reads tensors of the graph around it."""
    body.name = name
    for number, node in enumerate(graph.nodes):
        name = f"{node.place} {number}"
        made = body.node.add(op_type=node.type, input=node.inputs, output=node.outputs, name=name, domain=node.domain)
        for key, value in sorted(node.attributes.items()):
            _add_attribute(made, key, value)
    body.initializer.extend(
        external(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        if name in apart
        else numpy_helper.from_array(np.asarray(array, order="C"), name)
        for name, array in graph.constants.items()
    )
    body.output.extend(_value(graph, name, operand) for name, operand in graph.outputs.items())


def _name_skipped_outputs(graph: GraphProto) -> None:
    """Name the outputs that a Split leaves out: ONNX Runtime ends its process at one without a name."""
    for number, node in enumerate(graph.node):
        for index, output in enumerate(node.output):
            if node.op_type == "Split" and not output:
                node.output[index] = f"skipped {id(graph)} {number} {index}"
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _name_skipped_outputs(inner)


def _add_attribute(node: NodeProto, name: str, value: Attribute) -> None:
    match value:
        case [int(), *_]:
            node.attribute.add(name=name, type=AttributeProto.INTS, ints=value)
        case int():
            node.attribute.add(name=name, type=AttributeProto.INT, i=value)
        case float():
            node.attribute.add(name=name, type=AttributeProto.FLOAT, f=value)
        case str():
            node.attribute.add(name=name, type=AttributeProto.STRING, s=value.encode())
        case LoweredGraph():
            _fill(node.attribute.add(name=name, type=AttributeProto.GRAPH).g, value, name)
        case _:
            node.attribute.add(name=name, type=AttributeProto.FLOATS, floats=value)


def _inlined(model: ModelProto) -> ModelProto:
    """The model with the nodes of its functions in their places, under the names that messages give them.

    The inliner adds a number to them, and errors tell them. ONNX Runtime refuses a graph with a name twice, which nodes
    have that were one operator of a file: the number is left to all but the first of these.
    """
    taken = {node.name for node in model.graph.node}
    own = frozenset(taken)
    found = inliner.inline_local_functions(model)
    waiting = [found.graph]
    while waiting:
        for node in waiting.pop().node:
            name = _NUMBER.sub("", node.name)
            if node.name not in own and name not in taken:
                node.name = name
            taken.add(node.name)
            waiting.extend(attribute.g for attribute in node.attribute if attribute.HasField("g"))
    return found


def _value(graph: LoweredGraph, name: str, operand: int) -> ValueInfoProto:
    """An input or output. Each unknown axis gets a name of its own, since no two are known to be equal."""
    if operand in graph.types:
        return helper.make_value_info(name, graph.types[operand])
    element = graph.element_type(operand)
    dimensions = graph.dimensions[operand]
    if graph.open_axes:
        dimensions = (0,) * len(dimensions)
    shape = [length or f"{name}_axis{axis}" for axis, length in enumerate(dimensions)] if dimensions else None
    return helper.make_tensor_value_info(name, element, shape)


def external(name: str, element_type: int, dimensions: Sequence[int]) -> TensorProto:
    """A constant without its data, which the session options have under the same name."""
    tensor = TensorProto(name=name, dims=dimensions, data_type=element_type, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key=FILE_KEY, value=name)
    return tensor
