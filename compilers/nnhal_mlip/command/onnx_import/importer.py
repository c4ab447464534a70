"""Read an ONNX model, and turn it into a flow graph node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.onnx.folding import fold_constants
from nnhal_frontends.onnx.graph import MIN_OPSET, OnnxGraph, OnnxNode, read_graph
from nnhal_frontends.onnx.sizes import resolve_reshapes
from nnhal_mlip.command.onnx_import import elementwise, images, linear, movement
from nnhal_mlip.command.onnx_import.evaluation import NodeEvaluation
from nnhal_mlip.command.onnx_import.node_import import NodeImport
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowValue, SourceNode


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
        others_read = node.op_type != _SPLIT and any(uses[name] for name in node.outputs[1:] if name)
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


_SPLIT = "Split"
"""The only one of which others may read more than the first result."""

CONVERTERS: Mapping[str, Callable[[NodeImport], bool]] = {
    "Add": elementwise.add,
    "AveragePool": images.average_pool,
    "BatchNormalization": elementwise.batch_normalization,
    "Clip": elementwise.clip,
    "Concat": movement.concat,
    "Conv": images.conv,
    "ConvTranspose": images.conv_transpose,
    "Div": elementwise.divide,
    "Dropout": elementwise.dropout,
    "Erf": elementwise.erf,
    "Flatten": movement.flatten,
    "Gelu": elementwise.gelu,
    "Gemm": linear.gemm,
    "GlobalAveragePool": images.global_average_pool,
    "GlobalMaxPool": images.global_max_pool,
    "HardSigmoid": elementwise.hard_sigmoid,
    "HardSwish": elementwise.hard_swish,
    "Identity": elementwise.identity,
    "LeakyRelu": elementwise.leaky_relu,
    "MatMul": linear.matmul,
    "MaxPool": images.max_pool,
    "Mul": elementwise.multiply,
    "PRelu": elementwise.prelu,
    "Pad": movement.pad,
    "ReduceMean": movement.reduce_mean,
    "Relu": elementwise.relu,
    "Reshape": movement.reshape,
    "Resize": images.resize,
    "Sigmoid": elementwise.sigmoid,
    "Slice": movement.slice_axes,
    "Softmax": elementwise.softmax,
    _SPLIT: movement.split,
    "Squeeze": movement.squeeze,
    "Sub": elementwise.subtract,
    "Sum": elementwise.total,
    "Tanh": elementwise.tanh,
    "Transpose": movement.transpose,
    "Unsqueeze": movement.unsqueeze,
}
"""A converter returns False, before it has added anything, if Relay's operator cannot do what the node asks."""


def add_host_node(each: NodeImport) -> None:
    """Add a node as an operator that only the host has. Raises FlowError if the type of a result is not known."""
    node = each.node
    outputs = [name for name in node.outputs if name]
    evaluation = NodeEvaluation(each.graph, node)
    results = [_type(each, name) for name in outputs]
    if not each.agrees():
        results = _found(each, evaluation)
    first = each.builder.add(
        ".".join(filter(None, ("onnx", node.domain, node.op_type))),
        each.inputs(),
        sources=(each.source,),
        evaluate=evaluation,
        results=results,
        names=outputs,
    )
    each.names.update(zip(outputs, each.builder.outputs_of(first), strict=True))


def dequantised(graph: OnnxGraph, node: OnnxNode) -> Array | None:
    """Return the result of a DequantizeLinear of constants; None for any other node."""
    if node.op_type != "DequantizeLinear" or any(name and name not in graph.constants for name in node.inputs):
        return None
    return NodeEvaluation(graph, node)([graph.constants[name] for name in node.inputs if name])[0]


def _type(each: NodeImport, name: str) -> FlowValue:
    info = each.graph.tensors.get(name)
    if info is None or info.shape is None or info.element_type.hasobject:
        got = "no type" if info is None else "no rank" if info.shape is None else "no tensor of numbers"
        raise FlowError(
            f"node '{each.node.name}' ({each.node.op_type}): got {got} for its result '{name}', expected a tensor of"
            " known type and rank"
        )
    return FlowValue(info.shape, info.element_type)


def _found(each: NodeImport, evaluation: NodeEvaluation) -> list[FlowValue]:
    """Return the types of the results for inputs of zeros."""
    names = each.inputs()
    values = [each.builder.values[name] for name in names]
    zeros = [
        each.builder.constants.get(name, np.zeros(value.shape, value.element_type))
        for name, value in zip(names, values, strict=True)
    ]
    return [FlowValue(array.shape, array.dtype) for array in evaluation(zeros)]
