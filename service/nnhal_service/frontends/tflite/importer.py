"""TFLite to HAL: one converter for each operator, in the file's order."""

from __future__ import annotations

from nnhal.types import Operand, OperandLifeTime, OperandType, OperationType
from nnhal_service.frontends.errors import InvalidModel
from nnhal_service.frontends.imported import ImportedModel, ImportedTensor
from nnhal_service.frontends.tflite.builder import GraphBuilder, OperatorBuilder
from nnhal_service.frontends.tflite.folding import fold
from nnhal_service.frontends.tflite.graph import Graph, Operator
from nnhal_service.frontends.tflite.ops import CONVERTERS
from nnhal_service.frontends.tflite.reader import read_graph
from nnhal_service.frontends.tflite.tensors import element_type

AFTER = "/after"
"""What the name of a variable gets where it is an output."""


def import_tflite(content: bytes) -> ImportedModel:
    """A HAL model for the first subgraph of a TFLite file.

    Nodes are called by operator, index and first output: ``CONV_2D_0:block/conv``. Inputs have the shape that an
    interpreter gives them at first. Variables of operators that do one step of a sequence come after the file's own
    inputs and outputs; as outputs they are called ``name/after``. Raises InvalidModel where the file is broken,
    UnsupportedNode where the NN HAL cannot express an operator.
    """
    graph = read_graph(content)
    builder = GraphBuilder(graph)
    for index in graph.inputs:
        try:
            builder.input(index)
        except ValueError as error:
            raise InvalidModel(f"input {error}") from error
    for operator in graph.operators:
        _convert(builder, operator)
    outputs = _outputs(builder)
    return _imported(builder, outputs)


def _convert(builder: GraphBuilder, operator: Operator) -> None:
    b = OperatorBuilder(builder, operator)
    if fold(b):
        return
    converter = CONVERTERS.get(operator.type)
    if converter is None:
        raise operator.unsupported("no operation of the NN HAL does this operator", ", ".join(sorted(CONVERTERS)))
    converter(b)
