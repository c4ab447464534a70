"""A lowered graph as an ONNX model."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, inliner, numpy_helper

from nnhal_devices.cpu_acc.graph import LoweredGraph

_NUMBER = re.compile(r"__\d+(?:_\d+)?$")
IR_VERSION = 10
"""The first version that has opset 21."""


def model_of(graph: LoweredGraph, apart: Collection[str] = ()) -> ModelProto:
    """The model of a finished graph. The session has to be given the data of the constants in ``apart``."""
    nodes = [
        helper.make_node(
            node.type, node.inputs, node.outputs, f"{node.place} {number}", None, node.domain, None, **node.attributes
        )
        for number, node in enumerate(graph.nodes)
    ]
    initializers = [
        external(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        if name in apart
        else numpy_helper.from_array(np.asarray(array, order="C"), name)
        for name, array in graph.constants.items()
    ]
    if graph.message is not None:
        nodes += graph.message.node
        initializers += graph.message.initializer
    body = helper.make_graph(
        nodes,
        "main",
        [_value(graph, name, operand) for name, operand in graph.inputs.items()],
        [_value(graph, name, operand) for name, operand in graph.outputs.items()],
        initializers,
        sparse_initializer=[] if graph.message is None else graph.message.sparse_initializer,
    )
    opsets = {**graph.opsets, **{function.domain: 1 for function in graph.functions}}
    model = helper.make_model(
        body,
        functions=graph.functions,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        ir_version=IR_VERSION,
    )
    # ONNX Runtime inlines too, but fails on functions in functions.
    return _inlined(model) if graph.functions else model


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
    tensor.external_data.add(key="location", value=name)
    return tensor
