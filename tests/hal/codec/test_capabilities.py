from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.codec import capabilities_from_wire, capabilities_to_wire, extensions_from_wire, extensions_to_wire
from nnhal.types import (
    Capabilities,
    Extension,
    ExtensionOperandType,
    OperandPerformance,
    OperandType,
    PerformanceInfo,
)
from nnhal.v1 import types_pb2 as wire
from tests.hal.values import FLOAT32, INT32, TEXT

INFOS = st.builds(PerformanceInfo, FLOAT32, FLOAT32)
CAPABILITIES = st.builds(
    Capabilities,
    INFOS,
    INFOS,
    st.lists(st.builds(OperandPerformance, st.sampled_from(OperandType), INFOS), max_size=4).map(tuple),
    INFOS,
    INFOS,
)
EXTENSIONS = st.lists(
    st.builds(
        Extension, TEXT, st.lists(st.builds(ExtensionOperandType, INT32, st.booleans(), INT32), max_size=3).map(tuple)
    ),
    max_size=3,
).map(tuple)


@given(CAPABILITIES)
def test_capabilities_come_back(capabilities: Capabilities) -> None:
    message = wire.Capabilities.FromString(capabilities_to_wire(capabilities).SerializeToString())
    assert capabilities_from_wire(message) == capabilities


@given(EXTENSIONS)
def test_extensions_come_back(extensions: tuple[Extension, ...]) -> None:
    assert extensions_from_wire(extensions_to_wire(extensions)) == extensions


@pytest.mark.parametrize("code", [-1, 16, 0x10000])
def test_figures_for_a_type_that_the_hal_does_not_have_are_refused(code: int) -> None:
    entry = wire.OperandPerformance(type=wire.OperandType.ValueType(code))
    with pytest.raises(ValueError, match=f"{code} is not a valid OperandType"):
        capabilities_from_wire(wire.Capabilities(operand_performance=[entry]))
