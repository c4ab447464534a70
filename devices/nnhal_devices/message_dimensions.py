"""Check that a RUN's operands can have the dimensions of its message. Drivers decline operations that would fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nnhal.extensions.onnx import ELEMENT_TYPES
from nnhal.types import Operation, Subgraph
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_devices.remembered import Remembered, digest_of

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

_INFERRED_BYTES = 1 << 20
"""The dimensions that larger messages make are found out at execution: they have weights, which would be copied. Their
digest would take longer than the rest of the answer."""
_known: Remembered[str] = Remembered(4096)


def contradiction(message: bytes, graph: Subgraph, operation: Operation, infers: bool = True) -> str:
    """Return how the operands of a RUN contradict its message; empty if they do not, or if only execution can tell.

    Unless it ``infers``, nothing is found out about the dimensions of outputs.
    """
    given = tuple(graph.operands[index].dimensions for index in operation.inputs[1:])
    made = tuple(graph.operands[index].dimensions for index in operation.outputs)
    if not infers or len(message) > _INFERRED_BYTES:
        return _contradiction(message, given, made, infers=False)
    question = digest_of(message, given, made)
    known = _known.get(question)
    return _known.add(question, _contradiction(message, given, made, infers=True)) if known is None else known


def _contradiction(message: bytes, given: tuple[Dimensions, ...], made: tuple[Dimensions, ...], infers: bool) -> str:
    # Models without the extension need no ONNX.
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    try:
        proto = ModelProto.FromString(message)
    except DecodeError:
        return ""  # the drivers say that
    from nnhal.extensions.onnx_shapes import UninferableNode, require_inferable

    try:
        require_inferable([*proto.graph.node, *(node for function in proto.functions for node in function.node)])
    except UninferableNode as error:
        return str(error)
    numbers, expected = (len(given), len(made)), (len(proto.graph.input), len(proto.graph.output))
    if numbers != expected:
        got, allowed = (f"{inputs} inputs and {outputs} outputs" for inputs, outputs in (numbers, expected))
        return f"{got}, for which the message has {allowed}"
    return _difference("input", given, proto.graph.input) or (
        _difference("output", made, _results(proto, given)) if infers else ""
    )


def _difference(what: str, operands: tuple[Dimensions, ...], values: Iterable[ValueInfoProto]) -> str:
    for number, (dimensions, value) in enumerate(zip(operands, values, strict=False)):
        expected = _dimensions(value)
        if combine(dimensions, expected) is None:
            return f"{what} {number} of {describe(dimensions)}, for which the message has {describe(expected)}"
    return ""


def _dimensions(value: ValueInfoProto) -> Dimensions:
    """The dimensions of the operand that stands for a value, as far as they are known."""
    tensor = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
        return ()
    if tensor.elem_type not in ELEMENT_TYPES:  # such values pass as bytes
        return ()
    return tuple(max(dim.dim_value, 0) for dim in tensor.shape.dim) or (1,)


def _results(proto: ModelProto, given: tuple[Dimensions, ...]) -> Iterable[ValueInfoProto]:
    """The outputs with the dimensions that are inferred. Those that the message declares need not be true."""
    from onnx import shape_inference

    from nnhal.extensions.onnx_shapes import inferred_as_computed

    for value, dimensions in zip(proto.graph.input, given, strict=False):
        shape = value.type.tensor_type.shape
        if len(dimensions) == len(shape.dim):
            for axis, length in zip(shape.dim, dimensions, strict=True):
                if length:
                    axis.dim_value = length
    for value in proto.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    try:
        return inferred_as_computed(proto, shape_inference.infer_shapes).graph.output
    except Exception:  # it may raise anything about a message that runs nevertheless
        return ()
