from __future__ import annotations

import json

import numpy as np

from nnhal.types import (
    ChannelQuant,
    DataLocation,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal_tools.conformance.vectors import parse_vector
from nnhal_tools.conformance.written import vector_line


def test_a_vector_that_is_written_is_read_as_it_was() -> None:
    kind = OperandType.TENSOR_FLOAT32
    weights = np.array([1.5, -2.0], "f4")
    operands = (
        Operand(kind, (2,), lifetime=OperandLifeTime.SUBGRAPH_INPUT),
        Operand(kind, (2,), lifetime=OperandLifeTime.CONSTANT_COPY, location=DataLocation(0, 0, 8)),
        Operand(OperandType.INT32, (), lifetime=OperandLifeTime.CONSTANT_COPY, location=DataLocation(0, 8, 4)),
        Operand(kind, (2,), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT),
    )
    constants = weights.tobytes() + np.array(3, "i4").tobytes()
    graph = Subgraph(operands, (Operation(OperationType.ADD, (0, 1, 2), (3,)),), (0,), (3,))
    model = Model(graph, (), constants, (), True)
    given, wanted = np.array([0.1, np.nan], "f4"), np.array([np.inf, -np.inf], "f4")
    found = parse_vector(json.loads(vector_line("name", "group", model, [given], [wanted])))
    assert found.model == model
    assert (found.name, found.group, found.operations) == ("name", "group", ("ADD",))
    np.testing.assert_array_equal(found.inputs[0], given)
    np.testing.assert_array_equal(found.outputs[0].values, wanted)


def test_scales_of_channels_are_written() -> None:
    filters = Operand(
        OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        (2, 1),
        lifetime=OperandLifeTime.SUBGRAPH_INPUT,
        extra_params=ChannelQuant((0.5, 0.1), 0),
    )
    result = Operand(OperandType.TENSOR_FLOAT32, (2, 1), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
    graph = Subgraph((filters, result), (Operation(OperationType.DEQUANTIZE, (0,), (1,)),), (0,), (1,))
    line = vector_line("n", "g", Model(graph), [np.array([[1], [2]], np.int8)], [np.array([[0.5], [0.2]], "f4")])
    assert parse_vector(json.loads(line)).model.main == graph
