"""ONNX to HAL: passes over the graph, then one converter for each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from nnhal_service.frontends.errors import UnsupportedInput
from nnhal_service.frontends.imported import ImportedModel, ImportedTensor
from nnhal_service.frontends.onnx.builder import GraphBuilder, NodeBuilder, with_own_outputs
from nnhal_service.frontends.onnx.folding import fold_constants, remove_identities
from nnhal_service.frontends.onnx.fusion import fuse
from nnhal_service.frontends.onnx.graph import Graph, Node, read_graph
from nnhal_service.frontends.onnx.ops import CONVERTERS
from nnhal_service.frontends.onnx.qdq import fold_quantization
from nnhal_service.frontends.onnx.sizes import resolve_reshapes

_RULES = {op_type: converter.quantized for op_type, converter in CONVERTERS.items()}


def import_onnx(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None) -> ImportedModel:
    """A HAL model for an ONNX model of opset 7 or later, whose external data has been loaded.

    ``shapes`` gives inputs with open axes a fixed shape. Axes that stay open have dimension 0. Raises InvalidModel
    where the model is not valid or the shapes do not fit, UnsupportedInput or UnsupportedNode where the NN HAL has no
    way to express it.
    """
    source = read_graph(model, shapes)
    graph = prepare_graph(source)
    builder = GraphBuilder(graph)
    for name in graph.inputs:
        try:
            builder.input(name)
        except ValueError as error:
            raise UnsupportedInput(f"input {error}") from error
    for node in graph.nodes:
        _convert(builder, node)
    return _imported(source, builder)


def prepare_graph(graph: Graph) -> Graph:
    """The graph in which every node left is one that a converter takes, or cannot be expressed."""
    graph = remove_identities(resolve_reshapes(fold_constants(graph))).without_unused()
    graph = fold_quantization(fuse(graph), _RULES)
    return with_own_outputs(graph)


def _convert(builder: GraphBuilder, node: Node) -> None:
    converter = None if node.domain else CONVERTERS.get(node.op_type)
    if converter is None:
        where = f" of domain {node.domain}" if node.domain else ""
        raise node.unsupported(f"no operation of the NN HAL does this operator{where}", ", ".join(sorted(CONVERTERS)))
    converter.convert(NodeBuilder(builder, node))


def _imported(source: Graph, builder: GraphBuilder) -> ImportedModel:
    inputs = [_tensor(source, name, builder.operands[name]) for name in source.inputs]
    outputs = [_tensor(source, user, builder.operands[name]) for user, name in builder.graph.outputs.items()]
    used = {name for names in builder.origins for name in names}
    return ImportedModel(
        builder.model.build([tensor.operand for tensor in inputs], [tensor.operand for tensor in outputs]),
        tuple(inputs),
        tuple(outputs),
        tuple(builder.origins),
        tuple(node.name for node in source.nodes if node.name not in used),
        tuple(builder.model.names),
    )


def _tensor(source: Graph, name: str, operand: int) -> ImportedTensor:
    info = source.tensors[name]
    return ImportedTensor(name, operand, info.element_type, info.shape or ())
