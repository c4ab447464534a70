from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from nnhal import types
from nnhal.types import ErrorStatus, OperandType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal.v1 import backend_pb2, model_pb2, types_pb2

# The differences: the wire has no FusedActivation, which is a value in memory, and a 0 wherever proto3 requires one.
NOT_ON_THE_WIRE = {types.FusedActivation}
UNSPECIFIED = {"DEVICE_TYPE_UNSPECIFIED": 0, "NETWORK_EVENT_UNSPECIFIED": 0}

PAIRS: list[tuple[type[IntEnum], Any, str]] = [
    (types.ErrorStatus, types_pb2.ErrorStatus, "ERROR_STATUS_"),
    (types.DeviceType, types_pb2.DeviceType, "DEVICE_TYPE_"),
    (types.NetworkEvent, backend_pb2.NetworkEvent, "NETWORK_EVENT_"),
    (types.ExecutionPreference, types_pb2.ExecutionPreference, "EXECUTION_PREFERENCE_"),
    (types.Priority, types_pb2.Priority, "PRIORITY_"),
    (types.OperandType, types_pb2.OperandType, "OPERAND_TYPE_"),
    (types.OperandLifeTime, model_pb2.OperandLifeTime, "OPERAND_LIFE_TIME_"),
    (types.OperationType, model_pb2.OperationType, "OPERATION_TYPE_"),
]


@pytest.mark.parametrize(("ours", "wire", "prefix"), PAIRS, ids=[pair[0].__name__ for pair in PAIRS])
def test_an_enumeration_has_the_names_and_numbers_of_the_wire(ours: type[IntEnum], wire: Any, prefix: str) -> None:
    expected = {prefix + member.name: member.value for member in ours}
    assert {**expected, **UNSPECIFIED} == {**dict(wire.items()), **UNSPECIFIED}


def test_no_enumeration_of_the_types_is_left_out() -> None:
    enumerations = {value for value in vars(types).values() if isinstance(value, type) and issubclass(value, IntEnum)}
    assert enumerations == {pair[0] for pair in PAIRS} | NOT_ON_THE_WIRE


@pytest.mark.parametrize("enumeration", [pair[0] for pair in PAIRS] + [types.FusedActivation])
def test_a_member_is_its_name_as_text_and_its_number_if_that_is_asked_for(enumeration: type[IntEnum]) -> None:
    for member in enumeration:
        assert str(member) == f"{member}" == f"{member:>1}" == member.name
        assert f"{member:d}" == str(int(member)) == str(member.value)


def test_every_operand_type_with_elements_has_a_layout() -> None:
    assert ELEMENT_TYPES.keys() == set(OperandType) - {OperandType.SUBGRAPH}


@pytest.mark.contract("RS-04")
def test_an_unknown_error_status_is_a_general_failure() -> None:
    assert ErrorStatus(99) is ErrorStatus(-1) is ErrorStatus.GENERAL_FAILURE
