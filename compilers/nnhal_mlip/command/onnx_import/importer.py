"""Read an ONNX model, and turn it into a flow graph node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from nnhal.types.layout import describe
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.onnx.folding import fold_constants
from nnhal_frontends.onnx.graph import MIN_OPSET, OnnxGraph, read_graph
from nnhal_frontends.onnx.sizes import resolve_reshapes
from nnhal_mlip.command.onnx_import.host import add_host_node, dequantised
from nnhal_mlip.command.onnx_import.node_import import NodeImport
from nnhal_mlip.command.onnx_import.table import CONVERTERS
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, SourceNode


def import_onnx_graph(
    model: Path | bytes | onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> FlowGraph:
    """Return an ONNX model as a flow graph in NCHW, with values of the names that its tensors have.

    ``shapes`` fixes the shapes of inputs. What Relay has no operator for becomes ``onnx.<operator>``, as do images of
    other than two axes, types other than float32 and float16, and results of unknown shape.

    Raises:
        OSError: the file cannot be read.
        InvalidModel: the model breaks the rules of its format, its opset is before 7, or the shapes do not fit it.
        FlowError: the shape of an input is not known, or the type of a node's result.
    """
    source = read_graph(_read(model), shapes, lenient=True)
    if source.opset < MIN_OPSET:
        raise InvalidModel(f"the model uses ONNX opset {source.opset}, expected {MIN_OPSET} or later")
    numbers = {node.outputs: number for number, node in enumerate(source.nodes)}
    graph = resolve_reshapes(fold_constants(source)).without_unused()
    builder = FlowGraphBuilder()
    names = _inputs(graph, builder)
    uses = graph.uses()
    for node in graph.nodes:
        folded = dequantised(graph, node)
        if folded is not None:
            graph = replace(graph, constants={**graph.constants, node.outputs[0]: folded})
            continue
        origin = SourceNode(numbers[node.outputs], node.name, node.op_type)
        each = NodeImport(builder, graph, node, origin, names)
        convert = None if node.domain else CONVERTERS.get(node.op_type)
        others_read = any(uses[name] for name in node.outputs[1:] if name)
        if convert is None or others_read or not each.is_plain() or not convert(each):
            add_host_node(each)
    return builder.build({user: _output(graph, builder, names, name) for user, name in graph.outputs.items()})


def _read(model: Path | bytes | onnx.ModelProto) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    try:
        return onnx.load(str(model)) if isinstance(model, Path) else onnx.load_model_from_string(model)
    except DecodeError as error:
        what = str(model) if isinstance(model, Path) else f"{len(model)} bytes"
        raise InvalidModel(f"{what}: not an ONNX model") from error


def _inputs(graph: OnnxGraph, builder: FlowGraphBuilder) -> dict[str, str]:
    """Add the inputs; return the value of each."""
    for name in graph.inputs:
        info = graph.tensors[name]
        if info.shape is None or info.is_empty or info.element_type.hasobject:
            got = "no shape" if info.shape is None else "no elements" if info.is_empty else "no tensor of numbers"
            raise FlowError(f"input '{name}': got {got}, expected a tensor of known shape")
        if 0 in info.shape:
            known = ",".join(str(length or 1) for length in info.shape)
            raise FlowError(
                f"input '{name}': got shape {describe(info.shape)}, expected every dimension to be known;"
                f" give the input's shape, such as {name}={known}"
            )
    return {
        name: builder.input(name, graph.tensors[name].shape or (), graph.tensors[name].element_type)
        for name in graph.inputs
    }


def _output(graph: OnnxGraph, builder: FlowGraphBuilder, names: dict[str, str], name: str) -> str:
    if name not in names:
        names[name] = builder.constant(name, graph.constants[name])
    return names[name]
