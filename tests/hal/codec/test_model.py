from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.codec import graphs_to_wire, model_from_wire, model_to_wire
from nnhal.types import (
    ChannelQuant,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal.v1 import model_pb2 as wire
from tests.hal.values import DIMENSIONS, EXTENSION_NAMES, FLOAT32, INT32, LOCATIONS, MEMORIES, Numbers

INDEXES = st.lists(INT32, max_size=4).map(tuple)
OPERANDS = st.builds(
    Operand,
    st.one_of(st.sampled_from(OperandType), INT32),
    DIMENSIONS,
    FLOAT32,
    INT32,
    st.one_of(st.sampled_from(OperandLifeTime), INT32),
    LOCATIONS,
    st.one_of(
        st.none(),
        st.binary(max_size=8),
        st.builds(ChannelQuant, st.lists(FLOAT32, max_size=3).map(tuple), INT32),
    ),
)
OPERATIONS = st.builds(Operation, st.one_of(st.sampled_from(OperationType), INT32), INDEXES, INDEXES)
SUBGRAPHS = st.builds(
    Subgraph,
    st.lists(OPERANDS, max_size=3).map(tuple),
    st.lists(OPERATIONS, max_size=2).map(tuple),
    INDEXES,
    INDEXES,
)
MODELS = st.builds(
    Model,
    SUBGRAPHS,
    st.lists(SUBGRAPHS, max_size=2).map(tuple),
    st.binary(max_size=16),
    st.lists(MEMORIES, max_size=2).map(tuple),
    st.booleans(),
    EXTENSION_NAMES,
)
ELU = Model(
    Subgraph(
        (
            Operand(OperandType.TENSOR_FLOAT32, (2, 0), lifetime=OperandLifeTime.SUBGRAPH_INPUT),
            Operand(OperandType.TENSOR_FLOAT32, lifetime=OperandLifeTime.SUBGRAPH_OUTPUT),
        ),
        (Operation(OperationType.ELU, (0,), (1,)),),
        (0,),
        (1,),
    )
)


def sent(model: Model) -> Model:
    numbers = Numbers()
    message = wire.Model.FromString(model_to_wire(model, numbers.issue).SerializeToString())
    return model_from_wire(message, numbers.resolve)


@given(MODELS)
def test_models_come_back_whatever_is_in_them(model: Model) -> None:
    assert sent(model) == model


@given(MODELS)
def test_models_that_were_encoded_before_are_encoded_alike(model: Model) -> None:
    once, again = (model_to_wire(model, Numbers().issue, graphs) for graphs in (None, graphs_to_wire(model)))
    assert once == again


def test_codes_that_the_hal_knows_come_back_by_name() -> None:
    main = sent(ELU).main
    assert main.operations[0].type is OperationType.ELU
    assert [operand.type for operand in main.operands] == [OperandType.TENSOR_FLOAT32] * 2
    assert main.operands[0].lifetime is OperandLifeTime.SUBGRAPH_INPUT


@pytest.mark.contract("MV-04")
@pytest.mark.parametrize("code", [-1, 106, 10000, 0x7AAABBBB, -(2**31), 2**31 - 1])
def test_codes_that_the_hal_does_not_know_come_back_as_they_are(code: int) -> None:
    operand = Operand(code, lifetime=code)
    main = sent(Model(Subgraph((operand,), (Operation(code, (0,), (0,)),), (), ()))).main
    assert main.operands == (operand,)
    assert type(main.operands[0].type) is type(main.operands[0].lifetime) is int
    assert type(main.operations[0].type) is int


def test_scales_are_rounded_to_what_the_wire_has_room_for() -> None:
    (rounded,) = struct.unpack("f", struct.pack("f", 0.1))
    operand = Operand(OperandType.TENSOR_QUANT8_ASYMM, (1,), 0.1, extra_params=ChannelQuant((0.1,), 0))
    (back,) = sent(Model(Subgraph((operand,), (), (), ()))).main.operands
    assert back.scale == rounded
    assert back.extra_params == ChannelQuant((rounded,), 0)


def test_empty_extra_parameters_are_not_the_same_as_none() -> None:
    operands = (Operand(0x10001, extra_params=b""), Operand(0x10001), Operand(11, extra_params=ChannelQuant((), 0)))
    assert sent(Model(Subgraph(operands, (), (), ()))).main.operands == operands
