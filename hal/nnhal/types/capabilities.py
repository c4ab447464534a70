"""Descriptions that a device gives of itself."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.types.enums import OperandType


@dataclass(frozen=True, slots=True)
class PerformanceInfo:
    """Ratios to the CPU implementation: 1.0 equals the CPU, less is better."""

    exec_time: float
    power_usage: float


_LARGEST_FLOAT = (2.0 - 2.0**-23) * 2.0**127
SLOWEST = PerformanceInfo(_LARGEST_FLOAT, _LARGEST_FLOAT)
"""The figures of a type that a device does not list: FLT_MAX, so that the device is never preferred for it."""


@dataclass(frozen=True, slots=True)
class OperandPerformance:
    """Performance of operations whose first input has the given type."""

    type: OperandType
    info: PerformanceInfo


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Static performance figures."""

    relaxed_float32_to_float16_scalar: PerformanceInfo
    """For float32 scalars in a model that is relaxed to float16."""
    relaxed_float32_to_float16_tensor: PerformanceInfo
    """For float32 tensors in a model that is relaxed to float16."""
    operand_performance: tuple[OperandPerformance, ...]
    """Strictly ascending by type, without SUBGRAPH."""
    if_performance: PerformanceInfo
    """For IF, without the operations of its branches."""
    while_performance: PerformanceInfo
    """For WHILE, without the operations of its subgraphs."""

    def performance_of(self, code: int) -> PerformanceInfo:
        """Return the figures for an operand type; SLOWEST if the table does not list it."""
        return next((entry.info for entry in self.operand_performance if entry.type == code), SLOWEST)


@dataclass(frozen=True, slots=True)
class ExtensionOperandType:
    """One operand type of an extension. ``byte_size`` is the size of one element."""

    type: int
    is_tensor: bool
    byte_size: int


@dataclass(frozen=True, slots=True)
class Extension:
    """A vendor's operand and operation types, known by name."""

    name: str
    operand_types: tuple[ExtensionOperandType, ...] = ()


CACHE_TOKEN_BYTES = 32
"""The size of the token that names an entry of a compilation cache."""


@dataclass(frozen=True, slots=True)
class NumberOfCacheFiles:
    """Numbers of files that compilation caching needs. Both are zero if the device does no caching."""

    num_model_cache: int = 0
    num_data_cache: int = 0
