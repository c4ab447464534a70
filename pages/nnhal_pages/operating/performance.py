"""The HAL's performance figures of a device, in words. They are ratios to the CPU implementation: less is better."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnhal.types import SLOWEST, Capabilities, OperandType, PerformanceInfo
from nnhal_pages.units import number

_SAME = 0.01
"""Ratios that differ from 1 by no more count as equal."""


@dataclass(frozen=True, slots=True)
class PerformanceRow:
    """Meaning of the figures of one kind of operands or operations."""

    name: str
    """The HAL's name, or what the figures are for."""
    group: str
    """``floating point``, ``quantised``, ``other types`` or ``control flow``."""
    time: str
    """Execution time as a ratio to the CPU's."""
    speed: str
    """The same in words."""
    power: str
    """Power as a ratio to the CPU's."""


def performance_rows(capabilities: Capabilities) -> list[PerformanceRow]:
    """Return all figures, by group."""
    rows = [_row(name, group, info) for name, group, info in _figures(capabilities)]
    groups = list(dict.fromkeys(("floating point", "quantised", *(row.group for row in rows))))
    return sorted(rows, key=lambda row: groups.index(row.group))


def _figures(capabilities: Capabilities) -> Iterator[tuple[str, str, PerformanceInfo]]:
    relaxed = "float32 computed as float16"
    yield f"{relaxed}, scalars", "floating point", capabilities.relaxed_float32_to_float16_scalar
    yield f"{relaxed}, tensors", "floating point", capabilities.relaxed_float32_to_float16_tensor
    for entry in capabilities.operand_performance:
        yield entry.type.name, _group(entry.type), entry.info
    yield "IF", "control flow", capabilities.if_performance
    yield "WHILE", "control flow", capabilities.while_performance


def _group(kind: OperandType) -> str:
    if "FLOAT" in kind.name:
        return "floating point"
    return "quantised" if "QUANT" in kind.name else "other types"


def _row(name: str, group: str, info: PerformanceInfo) -> PerformanceRow:
    return PerformanceRow(name, group, _ratio(info.exec_time), _speed(info.exec_time), _ratio(info.power_usage))


def _ratio(value: float) -> str:
    return "largest" if value >= SLOWEST.exec_time else f"{value:.3g}"


def _speed(ratio: float) -> str:
    if ratio >= SLOWEST.exec_time:
        return "never preferred"
    if abs(ratio - 1) <= _SAME:
        return "as fast as the CPU"
    return f"{number(1 / ratio)} times as fast" if ratio < 1 else f"{number(ratio)} times as slow"
