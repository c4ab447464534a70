"""Import ONNX models: passes over the graph, then a converter for each node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import onnx
from onnx import shape_inference, version_converter

from nnhal.extensions.onnx import NAME
from nnhal_frontends.errors import InvalidModel, UnsupportedInput, UnsupportedNode
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_frontends.limits import DEFAULT_LIMITS, ImportLimits
from nnhal_frontends.onnx.builder import NodeBuilder, OnnxGraphBuilder, with_own_outputs
from nnhal_frontends.onnx.extension import add_extension_operation, set_aside, whole
from nnhal_frontends.onnx.external_data import attach_external_data
from nnhal_frontends.onnx.folding import fold_constants, remove_identities
from nnhal_frontends.onnx.fusion import fuse, fuse_shapes
from nnhal_frontends.onnx.graph import MIN_OPSET, OnnxGraph, OnnxNode, read_graph, read_screened
from nnhal_frontends.onnx.ops import CONVERTERS
from nnhal_frontends.onnx.qdq import contradicting, fold_quantization, with_real_constants
from nnhal_frontends.onnx.screening import screen
from nnhal_frontends.onnx.sizes import resolve_reshapes
from nnhal_frontends.onnx.source import OnnxSource
from nnhal_frontends.onnx.zipmaps import kind_of, without_zipmaps
from nnhal_frontends.weights_pool import Weights

_OF_CODES = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"})
"""Operators that read or make the integers themselves."""
_RULES = {op_type: converter.quantized for op_type, converter in CONVERTERS.items()}

_CONTRADICTIONS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What passes and converters raise if a node's parameters contradict one another, which shape inference need not see.
The devices say what is wrong with such a node."""


def state_outputs(model: onnx.ModelProto, outputs: Mapping[str, Sequence[int]]) -> None:
    """Declare dimensions of outputs that the file leaves open and its user knows. Those that it declares are kept."""
    for value in model.graph.output:
        dimensions = outputs.get(value.name)
        if dimensions is None or not value.type.HasField("tensor_type"):
            continue
        shape = value.type.tensor_type.shape
        if not value.type.tensor_type.HasField("shape"):
            for _ in dimensions:
                shape.dim.add()
        if len(shape.dim) == len(dimensions):
            for dim, length in zip(shape.dim, dimensions, strict=True):
                if length and (not dim.HasField("dim_value") or dim.dim_value < 1):
                    dim.dim_value = length


def import_onnx(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None = None,
    extension: bool = True,
    as_one: bool = False,
    limits: ImportLimits = DEFAULT_LIMITS,
    tensors_only: bool = False,
    weights: Weights = MappingProxyType({}),
    apart: Collection[str] | None = None,
) -> ImportedModel:
    """Import an ONNX model; ``weights`` are what other files have of its values.

    ``shapes`` fixes the shapes of inputs. Dimensions that stay unknown are 0. What the HAL cannot express becomes
    operations of the extension nnhal.onnx, unless ``extension`` is false; with ``as_one`` the whole model becomes
    one such operation. ``apart`` is as in ``import_model``. With ``tensors_only`` maps of probabilities become tensors,
    if that can be. Raises InvalidModel if the model is not valid or the shapes do not fit it; without the extension
    also UnsupportedInput or UnsupportedNode, and InvalidModel for an opset before 7.
    """
    if not extension:
        source = read_graph(model, shapes, limits=limits)
        return _converted(source, prepare_graph(simplified(source, limits), None, limits), limits)
    model, given = attach_external_data(model, weights, limits) if weights else (model, {})
    screen(model, limits)
    if tensors_only:
        model = without_zipmaps(model)
    raised = model if given else _raised(model)
    if raised is not model:
        screen(raised, limits)
    source = read_screened(raised, shapes, True, given, weights)
    if raised is not model and [n.op_type for n in raised.graph.node] != [n.op_type for n in model.graph.node]:
        source = replace(source, places={})
    if not as_one:
        imported = _with_extension(source, limits, apart)
        if imported is not None:
            return imported
    builder = OnnxGraphBuilder.within(limits, whole(source), extension=True)
    _add_inputs(builder)
    try:
        add_extension_operation(builder, builder.graph.nodes[0])
    except ValueError as error:
        raise InvalidModel(str(error)) from error
    return _imported(source, builder)


def _raised(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model of an opset before MIN_OPSET in that opset, or unchanged if it cannot be converted."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions or versions[0] >= MIN_OPSET:
        return model
    try:
        return version_converter.convert_version(model, MIN_OPSET)
    except (RuntimeError, ValueError, version_converter.ConvertError, shape_inference.InferenceError):
        return model


def simplified(graph: OnnxGraph, limits: ImportLimits = DEFAULT_LIMITS) -> OnnxGraph:
    """Return the graph without nodes that need no operation: constants are computed, and unused nodes removed."""
    return remove_identities(resolve_reshapes(fold_constants(graph, limits))).without_unused()


def prepare_graph(
    graph: OnnxGraph, leave: Collection[str] | None = None, limits: ImportLimits = DEFAULT_LIMITS, merge: bool = True
) -> OnnxGraph:
    """Return a simplified graph after all other passes, ready for the converters.

    ``leave`` names nodes for the extension, which the passes do not touch; with None no node is left to it. Without
    ``merge`` no node is merged with others.
    """
    if leave is not None:
        known = CONVERTERS if graph.opset >= MIN_OPSET else ()
        aside = set_aside(graph, leave, known)
        found = contradicting(aside)
        graph = set_aside(graph, {*leave, *found}, known) if found else aside
    if not merge:
        return with_own_outputs(with_real_constants(graph, limits))
    graph = fuse_shapes(fold_quantization(fuse(graph), _RULES, limits))
    return with_own_outputs(graph)


def _converted(source: OnnxGraph, graph: OnnxGraph, limits: ImportLimits) -> ImportedModel:
    builder = OnnxGraphBuilder.within(limits, graph)
    _add_inputs(builder)
    for node in graph.nodes:
        _convert(builder, node)
    return _imported(source, builder)


def _with_extension(source: OnnxGraph, limits: ImportLimits, apart: Collection[str] | None) -> ImportedModel | None:
    """Import the model with every node that cannot be converted left to the extension; None if that is not enough.

    Passes merge nodes with their neighbours. So if a node cannot be converted, all nodes that it stands for are left to
    the extension, and the passes run again. ``apart`` is as in ``import_model``.
    """
    merge = apart is None
    try:
        simple = simplified(source, limits)
    except _CONTRADICTIONS:
        return None
    left = {node.name for node in simple.nodes if node.op_type in (apart or ())}
    while True:
        try:
            graph = prepare_graph(simple, left, limits, merge)
        except UnsupportedNode as error:
            refused = {error.node}
        except _CONTRADICTIONS:
            return None
        else:
            builder = OnnxGraphBuilder.within(limits, graph, extension=True)
            _add_inputs(builder)
            refused = set()
            for node in graph.nodes:
                count = len(builder.origins)
                refused |= _try_to_add(builder, node)
                if not merge and len(builder.origins) > count + 1:
                    refused |= set(node.stands_for)
            if not refused:
                return _imported(source, builder, OnnxSource(simple, _tensors(simple, builder)))
        if refused <= left:
            return None
        left |= refused


def _try_to_add(builder: OnnxGraphBuilder, node: OnnxNode) -> set[str]:
    """Add a node. If that fails, return the names of the nodes that it stands for."""
    try:
        if node.domain == NAME:
            add_extension_operation(builder, node)
        else:
            _convert(builder, node)
    except UnsupportedNode:
        if node.stands_for:
            return set(node.stands_for)
        add_extension_operation(builder, node)
    except _CONTRADICTIONS:
        return set(node.stands_for)
    return set()


def _add_inputs(builder: OnnxGraphBuilder) -> None:
    for name in builder.graph.inputs:
        try:
            builder.input(name)
        except ValueError as error:
            raise UnsupportedInput(f"input {error}") from error


def _convert(builder: OnnxGraphBuilder, node: OnnxNode) -> None:
    converter = None if node.domain else CONVERTERS.get(node.op_type)
    if converter is None:
        origin = f" of domain {node.domain}" if node.domain else ""
        raise node.unsupported(f"the NN HAL has no operation for this operator{origin}", ", ".join(sorted(CONVERTERS)))
    _require_alike(builder.graph, node)
    converter.convert(NodeBuilder(builder, node))


def _require_alike(graph: OnnxGraph, node: OnnxNode) -> None:
    """Raise UnsupportedNode if some bytes that a node reads or writes have a scale, and others stand for themselves."""
    if not graph.quantization or node.op_type in _OF_CODES:
        return
    scaled = set()
    for name in (*node.inputs, *node.outputs):
        kind = graph.constants[name].dtype if name in graph.constants else None
        kind = graph.tensors[name].element_type if name in graph.tensors else kind
        if kind is not None and kind.kind in "iu" and kind.itemsize == 1:
            scaled.add(name in graph.quantization)
    if len(scaled) > 1:
        raise node.unsupported("integers with a scale beside integers without", "all of one kind")


def _tensors(simple: OnnxGraph, builder: OnnxGraphBuilder) -> dict[int, str]:
    """Return the names of the simplified graph's tensors by the operand that stands for them."""
    known = {operand: name for name, operand in builder.operands.items() if name not in builder.graph.constants}
    known |= {builder.operands[name]: simple.outputs[user] for user, name in builder.graph.outputs.items()}
    return known


def _imported(source: OnnxGraph, builder: OnnxGraphBuilder, form: OnnxSource | None = None) -> ImportedModel:
    inputs = [_tensor(source, name, builder.operands[name]) for name in source.inputs]
    outputs = [_tensor(source, user, builder.operands[name]) for user, name in builder.graph.outputs.items()]
    used = {name for names in builder.origins for name in names}
    shown = {name: place.name for name, place in source.places.items()}
    model = builder.model.build([tensor.operand for tensor in inputs], [tensor.operand for tensor in outputs])
    return ImportedModel(
        model,
        tuple(inputs),
        tuple(outputs),
        tuple(tuple(dict.fromkeys(shown.get(name, name) for name in names)) for names in builder.origins),
        tuple(shown.get(node.name, node.name) for node in source.nodes if node.name not in used),
        tuple(builder.model.names),
        source.warnings,
        source=form,
        operation_places=tuple(
            tuple(dict.fromkeys(source.places[name].number for name in names if name in source.places))
            for names in builder.origins
        )
        if source.places
        else (),
        node_count=1 + max((place.number for place in source.places.values()), default=-1),
        settled=model if builder.model.is_settled(model) else None,
    )


def _tensor(source: OnnxGraph, name: str, operand: int) -> ImportedTensor:
    info = source.tensors[name]
    return ImportedTensor(name, operand, info.element_type, info.shape or (), kind_of(info.proto))
