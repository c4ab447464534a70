"""The inputs and outputs of a model, as the framework describes them."""

from __future__ import annotations

from nnhal.errors import TransportError
from nnhal.extensions.onnx import element_type_named
from nnhal.tensors import Tensor, stored_type
from nnhal.types import OperandType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal.v1 import framework_pb2 as wire


def tensor_from_wire(message: wire.TensorInfo) -> Tensor:
    """Decode a tensor. Raises TransportError for an element type that this client does not know."""
    element_type = element_type_named(message.element_type)
    if message.element_type and element_type is None:
        raise TransportError(f"tensor {message.name!r} has elements of type {message.element_type}, unknown here")
    return Tensor(
        message.name,
        OperandType(message.type) if message.type in ELEMENT_TYPES else message.type,
        tuple(message.dimensions),
        message.byte_size,
        message.scale,
        message.zero_point,
        element_type,
        stored_type(message.type, element_type),
        message.scalar,
    )
