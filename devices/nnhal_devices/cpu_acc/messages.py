"""Operations of the extension nnhal.onnx: their messages, and the opsets of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

from google.protobuf.message import DecodeError
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    OperatorSetIdProto,
    defs,
    helper,
    version_converter,
)

from nnhal.extensions.onnx import MESSAGE, NAME, RUN, may_name_files, number_of, tensor_in_another_file
from nnhal.resolved import ResolvedModel
from nnhal.types import Model, OperandType, Operation
from nnhal_devices.cpu_acc.graph import DEFAULT_OPSETS

FUNCTION = "run"
"""How the functions of messages are called, with the number of the operation behind it."""
_DEFAULT_DOMAINS = ("", "ai.onnx")
_LEAST_OPSET = 7
"""The first for which ONNX Runtime has kernels."""
_LATEST_OPSET = 26
"""ONNX Runtime refuses later ones, which are still in development."""
_WITHOUT_GRAPHS = frozenset(AttributeProto.AttributeType.values()) - {
    AttributeProto.UNDEFINED,
    AttributeProto.GRAPH,
    AttributeProto.GRAPHS,
}
"""The types of most attributes."""
_opsets: WeakKeyDictionary[ResolvedModel, Mapping[str, int]] = WeakKeyDictionary()
"""The opsets of models that were asked about."""
_WIDENED = frozenset(
    {
        "Add",
        "ArgMax",
        "ArgMin",
        "Cast",
        "Concat",
        "Div",
        "Equal",
        "Expand",
        "Flatten",
        "GRU",
        "Gather",
        "GatherElements",
        "GatherND",
        "Gemm",
        "Greater",
        "Identity",
        "If",
        "LSTM",
        "Less",
        "Loop",
        "MatMul",
        "MaxPool",
        "Mul",
        "Neg",
        "Pow",
        "RNN",
        "Range",
        "Reshape",
        "Scan",
        "Shape",
        "Size",
        "Slice",
        "Sub",
        "Tile",
        "Transpose",
        "Where",
    }
)
"""Operators whose later versions have the same inputs and outputs and only allow more: other element types, optional
attributes. Their descriptions differ nevertheless."""


class MessageError(ValueError):
    """A message cannot become an operation of the graph; the text says why."""


def is_run(model: Model, operation: Operation) -> bool:
    """Return whether an operation is RUN of nnhal.onnx."""
    return number_of(model, operation.type) == RUN


def is_one_run(model: Model) -> bool:
    """Return whether a model is one RUN, whose nodes ONNX Runtime gets as they are."""
    return len(model.main.operations) == 1 and is_run(model, model.main.operations[0])


def message_of(model: ResolvedModel, operation: Operation) -> bytes:
    """The message of a RUN. Raises MessageError if its first input is none."""
    index = operation.inputs[0] if operation.inputs else -1
    values = model.constants[0].get(index)
    if values is None or number_of(model.model, model.model.main.operands[index].type) != MESSAGE:
        raise MessageError("the first input is no constant MESSAGE")
    return values.tobytes()


def opsets_of(model: ResolvedModel) -> Mapping[str, int]:
    """The opsets of the graph for a model, which are found out once: the lowest in which its messages keep their
    meaning.

    If there are operations of the HAL too, or operands that the graph keeps in another form, the opset of ONNX's own
    operators is no lower than the lowering's. Raises MessageError.
    """
    found = _opsets.get(model)
    if found is None:
        found = _opsets[model] = _opsets_of(model)
    return found


def _opsets_of(model: ResolvedModel) -> dict[str, int]:
    operations = model.model.main.operations
    runs = [operation for operation in operations if is_run(model.model, operation)]
    signed = any(o.type == OperandType.TENSOR_QUANT8_ASYMM_SIGNED for o in model.model.main.operands)
    only = is_one_run(model.model) or (runs and len(runs) == len(operations) and not signed)
    found = {} if only else dict(DEFAULT_OPSETS)
    for operation in runs:
        for domain, version in _needs(decode(message_of(model, operation))).items():
            found[domain] = max(version, found.get(domain, 0))
    return found


def decode(message: bytes, opset: int = 0) -> ModelProto:
    """Decode a message, converted to the given opset of ONNX's own operators, if any. Raises MessageError."""
    try:
        proto = ModelProto.FromString(message)
    except DecodeError as error:
        raise MessageError(f"a message of {len(message)} bytes, which is no ModelProto") from error
    elsewhere = tensor_in_another_file(proto) if may_name_files(message) else None
    if elsewhere is not None:
        raise MessageError(f"the values of tensor '{elsewhere}' lie in another file")
    return converted(proto, opset)


def converted(proto: ModelProto, opset: int) -> ModelProto:
    """A decoded message in the given opset of ONNX's own operators, if any is given. Raises MessageError."""
    given = imports_of(proto).get("", opset)
    if not opset or opset == given:
        return proto
    if _means_the_same(proto.graph, given, opset):
        for entry in proto.opset_import:
            if entry.domain in _DEFAULT_DOMAINS:
                entry.version = opset
        return proto
    try:
        return version_converter.convert_version(proto, opset)
    except (RuntimeError, ValueError) as error:
        raise MessageError(f"opset {given} cannot be made {opset}: {str(error).splitlines()[0]}") from error


def _needs(proto: ModelProto) -> dict[str, int]:
    """The opsets that a message needs; for ONNX's own operators, the lowest in which all mean the same."""
    needed = imports_of(proto)
    given = needed.get("")
    if given is not None:
        kinds = _own_types(proto.graph)
        versions = [_schema(op_type, given).since_version for op_type in sorted(kinds)]
        needed[""] = min(max([min(given, _LEAST_OPSET), *versions]), _LATEST_OPSET)
    return needed


def _means_the_same(graph: GraphProto, given: int, opset: int) -> bool:
    return all(_same(_schema(op_type, given), _schema(op_type, opset)) for op_type in _own_types(graph))


def _same(first: defs.OpSchema, second: defs.OpSchema) -> bool:
    """Return whether nodes of the first version of an operator mean the same in the second, which may take more."""
    if first.since_version == second.since_version:
        return True
    ours, theirs = ({name: a.default_value for name, a in each.attributes.items()} for each in (first, second))
    added = theirs.keys() - ours.keys()
    return (
        (first.name in _WIDENED or (first.doc == second.doc and not added))
        and all(theirs.get(name) == default for name, default in ours.items())
        and not any(second.attributes[name].required for name in added)
        and [p.name for p in first.inputs] == [p.name for p in second.inputs]
        and [p.name for p in first.outputs] == [p.name for p in second.outputs]
    )


def _schema(op_type: str, opset: int) -> defs.OpSchema:
    """An operator as of an opset. Raises MessageError."""
    try:
        return defs.get_schema(op_type, max_inclusive_version=opset)
    except defs.SchemaError as error:
        raise MessageError(f"there is no operator {op_type} in opset {opset}") from error


def _own_types(graph: GraphProto) -> set[str]:
    """The operators of ONNX's own domain, those in subgraphs too."""
    found = {node.op_type for node in graph.node if node.domain in _DEFAULT_DOMAINS}
    return found.union(*map(_own_types, _branches(graph)))


def has_branches(graph: GraphProto) -> bool:
    """Return whether a node of a graph has graphs of its own."""
    return any(True for _ in _branches(graph))


def node_count(graph: GraphProto) -> int:
    """Return how many nodes a graph has, with those of the graphs of its nodes."""
    return len(graph.node) + sum(map(node_count, _branches(graph)))


def _branches(graph: GraphProto) -> Iterator[GraphProto]:
    """The graphs of a graph's nodes."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type not in _WITHOUT_GRAPHS and (attribute.HasField("g") or attribute.graphs):
                yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


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
        opsetimports_of(opsets),
    )


def opsetimports_of(opsets: Mapping[str, int]) -> list[OperatorSetIdProto]:
    """Opsets as ONNX's messages."""
    return [helper.make_opsetid(domain, version) for domain, version in opsets.items()]


def imports_of(proto: ModelProto) -> dict[str, int]:
    """The opset of each domain that a message names; that of ONNX's own operators has no name."""
    return {"" if entry.domain in _DEFAULT_DOMAINS else entry.domain: entry.version for entry in proto.opset_import}
