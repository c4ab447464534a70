from __future__ import annotations

import json
from dataclasses import replace

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
from nnhal_tools.conformance.vectors import parse_vector, vector_of
from nnhal_tools.conformance.written import vector_line
from nnhal_tools.distance import Limits


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
    found = parse_vector(json.loads(vector_line(vector_of("name", "group", model, [given], [wanted]))))
    assert found.model == model
    assert (found.name, found.group, found.operations) == ("name", "group", ("ADD",))
    np.testing.assert_array_equal(found.inputs[0], given)
    np.testing.assert_array_equal(found.outputs[0].values, wanted)


def test_names_and_the_way_in_which_a_test_fails_are_written() -> None:
    kind = OperandType.TENSOR_FLOAT32
    operands = (
        Operand(kind, (1,), lifetime=OperandLifeTime.SUBGRAPH_INPUT),
        Operand(kind, (1,), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT),
    )
    graph = Subgraph(operands, (Operation(OperationType.TANH, (0,), (1,)),), (0,), (1,))
    vector = vector_of("n", "g", Model(graph), [np.zeros(1, "f4")], [np.zeros(1, "f4")])
    limits = Limits(max_ulp=0, min_sqnr=40.0, signed_zeros=True)
    said = replace(vector, names=("", "y"), mode="burst", memory="token", limits=limits, seconds=0.5, paints=True)
    found = parse_vector(json.loads(vector_line(said)))
    assert (found.names, found.mode, found.memory) == (("", "y"), "burst", "token")
    assert (found.limits, found.seconds, found.paints) == (limits, 0.5, True)
    assert parse_vector(json.loads(vector_line(replace(vector, limits=Limits())))).limits == Limits()
    assert parse_vector(json.loads(vector_line(vector))).limits is None


def test_scales_of_channels_are_written() -> None:
    filters = Operand(
        OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        (2, 1),
        lifetime=OperandLifeTime.SUBGRAPH_INPUT,
        extra_params=ChannelQuant((0.5, 0.1), 0),
    )
    result = Operand(OperandType.TENSOR_FLOAT32, (2, 1), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
    graph = Subgraph((filters, result), (Operation(OperationType.DEQUANTIZE, (0,), (1,)),), (0,), (1,))
    given, wanted = np.array([[1], [2]], np.int8), np.array([[0.5], [0.2]], "f4")
    line = vector_line(vector_of("n", "g", Model(graph), [given], [wanted]))
    assert parse_vector(json.loads(line)).model.main == graph


def test_what_is_not_compared_omitted_or_in_another_subgraph_is_written() -> None:
    """The vector is written by hand, as the files have it."""
    tensor = {"type": "TENSOR_FLOAT32", "dimensions": [2], "scale": 0.0, "zero_point": 0}
    given = {**tensor, "lifetime": "SUBGRAPH_INPUT"}
    result = {**tensor, "lifetime": "SUBGRAPH_OUTPUT"}
    branch = {
        "operands": [given, {**tensor, "lifetime": "CONSTANT_COPY", "data": [1.0, 2.0]}, result],
        "operations": [{"type": "PRELU", "inputs": [0, 1], "outputs": [2]}],
        "inputs": [0],
        "outputs": [2],
    }
    condition = {"type": "TENSOR_BOOL8", "dimensions": [1], "scale": 0.0, "zero_point": 0}
    graph = {"type": "SUBGRAPH", "dimensions": [], "scale": 0.0, "zero_point": 0, "lifetime": "SUBGRAPH"}
    test = {
        "name": "name",
        "spec": "group",
        "relaxed": True,
        "expect_failure": True,
        "multinomial_tolerance": 0.5,
        "main": {
            "operands": [
                {**condition, "lifetime": "SUBGRAPH_INPUT", "data": [1]},
                {**graph, "subgraph": 0},
                {**graph, "subgraph": 1},
                given,
                {**result, "data": [3.0, 4.0], "ignored": True},
            ],
            "operations": [{"type": "IF", "inputs": [0, 1, 2, 3], "outputs": [4]}],
            "inputs": [0, 3],
            "outputs": [4],
        },
        "referenced": [branch, branch],
    }
    assert json.loads(vector_line(parse_vector(test))) == test
