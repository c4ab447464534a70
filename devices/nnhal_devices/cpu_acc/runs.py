"""Operations of the extension nnhal.onnx that ONNX Runtime supports: only a session of their messages can tell.

One session is made of all messages together, which costs little more than that of one. Only if ONNX Runtime refuses it
is each asked about alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnxruntime
from onnx import ModelProto, compose

from nnhal.errors import general_failure
from nnhal.extensions.onnx import ELEMENT_TYPES, PACKED_TYPES, number_of
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Supported, Unsupported
from nnhal.types import Operation
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.fatal_uses import fatal_use
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.messages import (
    MessageError,
    converted,
    decode,
    has_branches,
    imports_of,
    is_run,
    message_of,
    opsets_of,
)
from nnhal_devices.cpu_acc.runtime_words import words_of
from nnhal_devices.cpu_acc.session import RUNTIME_ERRORS, session_options
from nnhal_devices.message_dimensions import contradiction
from nnhal_devices.remembered import Remembered, digest_of

_FATAL_ONLY = 4
_MOST_BYTES_TOGETHER = 1 << 20
"""Larger messages, which hold weights, are asked about alone, so that these are not copied."""
_REFUSALS: tuple[type[Exception], ...] = (*RUNTIME_ERRORS, MessageError)
_known: Remembered[str] = Remembered(4096)
"""Why ONNX Runtime refuses a message in an opset; empty if it does not."""


def declared(model: ResolvedModel, infers: bool = True) -> dict[int, Support]:
    """Check that the operands of each operation of the extension are those of its message, by the operation's number.

    Unless it ``infers``, nothing is found out about the dimensions of outputs.
    """
    runs = {n: o for n, o in enumerate(model.model.main.operations) if is_run(model.model, o)}
    try:
        opsets_of(model)
        return {number: _declared(model, operation, infers) for number, operation in runs.items()}
    except MessageError as error:
        return dict.fromkeys(runs, Unsupported("OP", str(error), "a message for ONNX Runtime"))


def supported(model: ResolvedModel) -> dict[int, Support]:
    """Return whether ONNX Runtime supports each operation of the extension, by the operation's number."""
    answers = declared(model)
    operations = model.model.main.operations
    left = {n: message_of(model, operations[n]) for n, answer in answers.items() if isinstance(answer, Supported)}
    for number, objection in _objections(left, opsets_of(model).get("", 0) if left else 0).items():
        if objection:
            answers[number] = Unsupported("OP", objection, "what ONNX Runtime takes")
    return answers


def _declared(model: ResolvedModel, operation: Operation, infers: bool) -> Support:
    """Return whether the operands of an operation are those that its message declares. Raises MessageError."""
    for index in (*operation.inputs, *operation.outputs):
        number = number_of(model.model, model.model.main.operands[index].type)
        if number in PACKED_TYPES and index not in model.constants[0]:
            element = ELEMENT_TYPES[number].name
            return Unsupported("DTYPE", element, "elements of whole bytes", "ONNX Runtime packs them otherwise")
    message = message_of(model, operation)
    graph = decode(message).graph
    declared, given = (len(graph.input), len(graph.output)), (len(operation.inputs) - 1, len(operation.outputs))
    if declared != given:
        got, allowed = (f"{inputs} inputs and {outputs} outputs" for inputs, outputs in (given, declared))
        return Unsupported("OP", got, allowed, "as many as the message has")
    if (fatal := fatal_use(graph)) is not None:
        return Unsupported("OP", *fatal, "ONNX Runtime ends its process at it")
    if difference := contradiction(message, model.model.main, operation, infers):
        return Unsupported("SHAPE", difference, "operands like those of the message's graph")
    return SUPPORTED


def require_outputs(model: ResolvedModel, graph: LoweredGraph, session: onnxruntime.InferenceSession) -> None:
    """Refuse a model that is one RUN whose outputs, as a session has found them, are not those of the operands.

    ONNX Runtime infers their dimensions as ``declared`` does, and leaves open what contradicts it. Raises
    GENERAL_FAILURE.
    """
    values = {value.name: value for value in session.get_outputs()}
    known = {name: graph.dimensions[operand] for name, operand in graph.outputs.items()}
    if graph.open_axes or all(_has(values[name].shape, dimensions) for name, dimensions in known.items() if dimensions):
        return
    for answer in declared(model).values():
        if isinstance(answer, Unsupported):
            general_failure(f"ONNX Runtime finds other outputs: got {answer.got}, allowed {answer.allowed}")


def _has(shape: Sequence[int | str | None], dimensions: Dimensions) -> bool:
    return len(shape) == len(dimensions) and all(n in (0, found) for n, found in zip(dimensions, shape, strict=True))


def _objections(messages: Mapping[int, bytes], opset: int) -> dict[int, str]:
    """Return why ONNX Runtime refuses messages; empty if it does not."""
    digests = {number: digest_of(message, opset) for number, message in messages.items()}
    found = {digest: known for digest in digests.values() if (known := _known.get(digest)) is not None}
    asked = {digest: messages[number] for number, digest in digests.items() if digest not in found}
    for group in _groups(asked):
        if len(group) > 1 and not _refusal(_joined(list(group.values())), opset):
            found |= dict.fromkeys(group, "")
        else:
            found |= {digest: _objection(proto, opset) for digest, proto in group.items()}
    for digest in asked:
        _known.add(digest, found[digest])
    return {number: found[digest] for number, digest in digests.items()}


def _groups(messages: Mapping[bytes, bytes]) -> list[dict[bytes, ModelProto]]:
    """Messages that can be joined: those without weights and functions that name the same opsets."""
    groups: dict[object, dict[bytes, ModelProto]] = {}
    for digest, message in messages.items():
        proto = decode(message)
        alone = len(message) > _MOST_BYTES_TOGETHER or proto.functions
        key = digest if alone else tuple(sorted(imports_of(proto).items()))
        groups.setdefault(key, {})[digest] = proto
    return list(groups.values())


def _objection(proto: ModelProto, opset: int) -> str:
    """Return why ONNX Runtime refuses a message, which this changes; empty if it does not.

    It may refuse it for its dimensions alone: a branch of If that is for others contradicts them. That is no objection,
    since ``open_axes`` of the graph helps.
    """
    refusal = _refusal(proto, opset)
    if not refusal or not has_branches(proto.graph):
        return refusal
    for value in proto.graph.input:
        for axis in value.type.tensor_type.shape.dim:
            axis.Clear()
    return _refusal(proto, opset) and refusal


def _refusal(proto: ModelProto, opset: int) -> str:
    """Return why ONNX Runtime refuses a message, which this changes; empty if it does not."""
    options = session_options(1)
    options.log_severity_level = _FATAL_ONLY  # the answer contains its message
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        content = converted(proto, opset).SerializeToString()
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except _REFUSALS as error:
        return words_of(error)
    return ""


def _joined(protos: Sequence[ModelProto]) -> ModelProto:
    """One message with the nodes of several, whose names begin with the message's number."""
    joined = ModelProto(ir_version=max(proto.ir_version for proto in protos), opset_import=protos[0].opset_import)
    joined.graph.name = "messages"
    for number, proto in enumerate(protos):
        copy = compose.add_prefix_graph(proto.graph, f"{number}/")
        for field in ("node", "initializer", "sparse_initializer", "input", "output", "value_info"):
            getattr(joined.graph, field).extend(getattr(copy, field))
    return joined
