"""Conversion of the descriptions that a device gives of itself."""

from __future__ import annotations

from collections.abc import Iterable

from nnhal.types import (
    Capabilities,
    Extension,
    ExtensionOperandType,
    OperandPerformance,
    OperandType,
    PerformanceInfo,
)
from nnhal.v1 import types_pb2 as wire


def capabilities_to_wire(capabilities: Capabilities) -> wire.Capabilities:
    return wire.Capabilities(
        relaxed_float32_to_float16_performance_scalar=_info_to_wire(capabilities.relaxed_float32_to_float16_scalar),
        relaxed_float32_to_float16_performance_tensor=_info_to_wire(capabilities.relaxed_float32_to_float16_tensor),
        operand_performance=[
            wire.OperandPerformance(type=wire.OperandType.ValueType(entry.type), info=_info_to_wire(entry.info))
            for entry in capabilities.operand_performance
        ],
        if_performance=_info_to_wire(capabilities.if_performance),
        while_performance=_info_to_wire(capabilities.while_performance),
    )


def capabilities_from_wire(message: wire.Capabilities) -> Capabilities:
    """Decode capabilities. Raises ValueError if a type is not of the base set."""
    return Capabilities(
        _info_from_wire(message.relaxed_float32_to_float16_performance_scalar),
        _info_from_wire(message.relaxed_float32_to_float16_performance_tensor),
        tuple(
            OperandPerformance(OperandType(entry.type), _info_from_wire(entry.info))
            for entry in message.operand_performance
        ),
        _info_from_wire(message.if_performance),
        _info_from_wire(message.while_performance),
    )


def _info_to_wire(info: PerformanceInfo) -> wire.PerformanceInfo:
    return wire.PerformanceInfo(exec_time=info.exec_time, power_usage=info.power_usage)


def _info_from_wire(message: wire.PerformanceInfo) -> PerformanceInfo:
    return PerformanceInfo(message.exec_time, message.power_usage)


def extensions_to_wire(extensions: Iterable[Extension]) -> list[wire.Extension]:
    return [
        wire.Extension(
            name=extension.name,
            operand_types=[
                wire.ExtensionOperandTypeInformation(type=t.type, is_tensor=t.is_tensor, byte_size=t.byte_size)
                for t in extension.operand_types
            ],
        )
        for extension in extensions
    ]


def extensions_from_wire(messages: Iterable[wire.Extension]) -> tuple[Extension, ...]:
    return tuple(
        Extension(
            message.name,
            tuple(ExtensionOperandType(t.type, t.is_tensor, t.byte_size) for t in message.operand_types),
        )
        for message in messages
    )
