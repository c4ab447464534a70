"""Operations of the extension nnhal.onnx: what their messages say, and whether ONNX Runtime can do it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import onnxruntime
from google.protobuf.message import DecodeError
from onnx import FunctionProto, ModelProto, OperatorSetIdProto, helper, version_converter

from nnhal.extensions.onnx import MESSAGE, NAME, RUN, number_of
from nnhal.resolved import ResolvedModel
from nnhal.types import Model, Operation
from nnhal_devices.cpu_acc.graph import DEFAULT_OPSETS
from nnhal_devices.cpu_acc.session import RUNTIME_ERRORS, session_options
from nnhal_devices.driver import SUPPORTED, Support, Unsupported

_DEFAULT_DOMAINS = ("", "ai.onnx")


class MessageError(ValueError):
    """A message that cannot be made an operation of the graph; the text says why."""


def is_run(model: Model, operation: Operation) -> bool:
    """Whether an operation is RUN of nnhal.onnx."""
    return number_of(model, operation.type) == RUN


def message_of(model: ResolvedModel, operation: Operation) -> bytes:
    """The message of a RUN. Raises MessageError where its first input is none."""
    index = operation.inputs[0] if operation.inputs else -1
    values = model.constants[0].get(index)
    if values is None or number_of(model.model, model.model.main.operands[index].type) != MESSAGE:
        raise MessageError("the first input is no constant MESSAGE")
    return values.tobytes()


def opsets_of(model: ResolvedModel) -> dict[str, int]:
    """The opsets of the graph for a model: those of its messages, raised to that of the lowering where both occur."""
    found: dict[str, int] = {}
    for operation in model.model.main.operations:
        if is_run(model.model, operation):
            for domain, version in _imports(decode(message_of(model, operation))).items():
                found[domain] = max(version, found.get(domain, 0))
    if not all(is_run(model.model, operation) for operation in model.model.main.operations):
        found[""] = max(DEFAULT_OPSETS[""], found.get("", 0))
    return found or DEFAULT_OPSETS


def decode(message: bytes, opset: int = 0) -> ModelProto:
    """What a message says, in an opset no lower than the one given. Raises MessageError."""
    try:
        proto = ModelProto.FromString(message)
    except DecodeError as error:
        raise MessageError(f"a message of {len(message)} bytes, which is no ModelProto") from error
    given = _imports(proto).get("")
    if given is None or given >= opset:
        return proto
    try:
        return version_converter.convert_version(proto, opset)
    except (RuntimeError, ValueError) as error:
        raise MessageError(f"opset {given} cannot be made {opset}: {str(error).splitlines()[0]}") from error


def function_of(proto: ModelProto, name: str, opsets: Mapping[str, int]) -> FunctionProto:
    """The graph of a message as a function."""
    graph = proto.graph
    constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in graph.initializer]
    return helper.make_function(
        NAME,
        name,
        [value.name for value in graph.input],
        [value.name for value in graph.output],
        [*constants, *graph.node],
        opset_imports(opsets),
    )


def opset_imports(opsets: Mapping[str, int]) -> list[OperatorSetIdProto]:
    """As ONNX has them."""
    return [helper.make_opsetid(domain, version) for domain, version in opsets.items()]


def supported(model: ResolvedModel, operation: Operation) -> Support:
    """Whether ONNX Runtime takes an operation of the extension, on its own or between those of the HAL."""
    if not is_run(model.model, operation):
        return Unsupported("OP", f"operation {operation.type:#x} of an extension", f"RUN of {NAME}")
    try:
        message = message_of(model, operation)
        objection = _objection(message, opsets_of(model).get("", 0))
    except MessageError as error:
        objection = str(error)
    return Unsupported("OP", objection, "what ONNX Runtime takes") if objection else SUPPORTED


@lru_cache(maxsize=256)
def _objection(message: bytes, opset: int) -> str:
    """Why ONNX Runtime does not take a message, empty where it does. It is the only one to know, so it is asked."""
    options = session_options(1)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        content = decode(message, opset).SerializeToString()
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except RUNTIME_ERRORS as error:
        return str(error)
    return ""


def _imports(proto: ModelProto) -> dict[str, int]:
    return {"" if entry.domain in _DEFAULT_DOMAINS else entry.domain: entry.version for entry in proto.opset_import}
