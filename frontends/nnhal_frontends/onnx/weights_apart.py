"""A model without its weights, for ONNX's own tools: they copy a model several times, and look at no weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import fresh, tensor_names

LEAST_BYTES = 16 << 10
"""The least bytes of a tensor that is set apart. Shape inference looks at sizes, axes and scales, which are smaller."""
_MOST_ELEMENT_BYTES = 8
OTHER_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
TYPES = frozenset(
    {
        TensorProto.BOOL,
        TensorProto.DOUBLE,
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.INT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
        TensorProto.UINT8,
    }
)


@dataclass(slots=True)
class ModelApart:
    """A model whose large tensors are inputs, and these tensors."""

    model: onnx.ModelProto
    weights: dict[str, Array] = field(default_factory=dict)
    """The values of tensors that are inputs in place of initializers, by name."""
    nodes: dict[str, NodeProto] = field(default_factory=dict)
    """The nodes Constant for which the model has Identity of an input, by output."""
    constants: dict[str, Array] = field(default_factory=dict)
    """The values of these nodes, by the inputs that have them."""
    added: set[str] = field(default_factory=set)
    """The inputs of the model that are not the user's."""
    taken: Collection[str] = ()
    """All names of the model's tensors."""

    def original(self, node: NodeProto) -> NodeProto:
        """Return the node of the user's model that a node of this one stands for."""
        return self.nodes.get(node.output[0], node) if node.op_type == "Identity" and node.output else node

    def declare(self, name: str, tensor: TensorProto) -> None:
        """Add an input for a tensor."""
        self.model.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
        self.added.add(name)

    def stand_in(self, node: NodeProto, values: Array) -> NodeProto:
        """Return what takes the place of a node Constant, and add its input."""
        name = fresh(f"{node.output[0]}/value", self.taken)
        self.declare(name, node.attribute[0].t)
        self.constants[name] = values
        return helper.make_node("Identity", [name], node.output, node.name)


def set_weights_apart(model: onnx.ModelProto, given: Mapping[str, Array] = MappingProxyType({})) -> ModelApart:
    """Return a model without its large tensors, or the very model if it has none; the given model does not change.

    ``given`` has the values of initializers that lie outside the model. Tensors that ONNX's checker could object to
    stay.
    """
    weights, large = dict(given) | _large_initializers(model.graph), _large_constants(model.graph)
    if not weights and not large:
        return ModelApart(model)
    light = onnx.ModelProto()
    _copy(model, light, "graph")
    _copy(model.graph, light.graph, "node", "initializer")
    apart = ModelApart(light, weights, {node.output[0]: node for node in map(model.graph.node.__getitem__, large)})
    light.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name not in weights)
    declared = {value.name for value in model.graph.input}
    apart.taken = tensor_names(model.graph) if large else ()
    for tensor in model.graph.initializer:
        if tensor.name in weights and tensor.name not in declared:
            apart.declare(tensor.name, tensor)
    nodes = model.graph.node
    light.graph.node.extend(
        apart.stand_in(node, large[number]) if number in large else node for number, node in enumerate(nodes)
    )
    return apart


def take_weights_out(model: onnx.ModelProto, given: Mapping[str, Array], constants: Mapping[str, Array]) -> ModelApart:
    """As ``set_weights_apart``, of a model that is not needed as it was: it changes, and copies nothing.

    What large nodes Constant make are weights then, by their outputs. ``constants`` has the values of those of which
    the model has none.
    """
    graph = model.graph
    apart = ModelApart(model, dict(given) | _large_initializers(graph))
    declared = {value.name for value in graph.input}
    for number, tensor in reversed([*enumerate(graph.initializer)]):
        if tensor.name in apart.weights:
            if tensor.name not in declared:
                apart.declare(tensor.name, tensor)
            del graph.initializer[number]
    for number, values in reversed(_large_constants(graph, constants).items()):
        node = graph.node[number]
        apart.declare(node.output[0], node.attribute[0].t)
        apart.weights[node.output[0]] = values
        del graph.node[number]
    return apart


def _large_initializers(graph: onnx.GraphProto) -> dict[str, Array]:
    names = Counter(tensor.name for tensor in graph.initializer)
    return {
        tensor.name: values
        for tensor in graph.initializer
        if names[tensor.name] == 1 and tensor.name and (values := _values(tensor)) is not None
    }


def _large_constants(graph: onnx.GraphProto, constants: Mapping[str, Array] = MappingProxyType({})) -> dict[int, Array]:
    """The values of large nodes Constant by their indexes, ascending."""
    return {
        number: values
        for number, node in enumerate(graph.node)
        if is_constant(node) and (values := constants.get(node.output[0], _values(node.attribute[0].t))) is not None
    }


def _values(tensor: TensorProto) -> Array | None:
    """Return the values of a large tensor; None if the tensor stays in the file."""
    if not _is_large(tensor):
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError):  # the checker, or who reads the tensor later, says what is wrong
        return None


def _is_large(tensor: TensorProto) -> bool:
    return (
        prod(tensor.dims) * _MOST_ELEMENT_BYTES > LEAST_BYTES  # most are not
        and tensor.HasField("raw_data")
        and tensor.data_type in TYPES
        and min(tensor.dims, default=0) > 0
        and prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize > LEAST_BYTES
        and not tensor.HasField("segment")
        and not any(len(getattr(tensor, name)) for name in OTHER_DATA)
    )


def is_constant(node: NodeProto) -> bool:
    """Return whether a node is ONNX's Constant of a tensor."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or node.input or len(node.output) != 1:
        return False
    attributes = node.attribute
    is_value = len(attributes) == 1 and attributes[0].name == "value" and attributes[0].type == AttributeProto.TENSOR
    return is_value and bool(node.output[0])


def _copy(source: Message, target: Message, *apart: str) -> None:
    """Copy all fields of a message but some."""
    given: Mapping[str, Any] = {entry.name: value for entry, value in source.ListFields() if entry.name not in apart}
    for name, value in given.items():
        own = getattr(target, name)
        if isinstance(value, Message):
            own.CopyFrom(value)
        elif hasattr(own, "extend"):
            own.extend(value)
        else:
            setattr(target, name, value)
