"""What a device says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.types.enums import OperandType


@dataclass(frozen=True, slots=True)
class PerformanceInfo:
    """Ratios against the CPU implementation: 1.0 is as the CPU, less is better."""

    exec_time: float
    power_usage: float


_LARGEST_FLOAT = (2.0 - 2.0**-23) * 2.0**127
SLOWEST = PerformanceInfo(_LARGEST_FLOAT, _LARGEST_FLOAT)
"""What counts for a type of which a device says nothing: FLT_MAX, so that it is never preferred for it."""


@dataclass(frozen=True, slots=True)
class OperandPerformance:
    """Performance of operations whose first input has the given type."""

    type: OperandType
    info: PerformanceInfo


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Static performance figures. ``operand_performance`` ascends strictly by type and holds no SUBGRAPH."""

    relaxed_float32_to_float16_scalar: PerformanceInfo
    relaxed_float32_to_float16_tensor: PerformanceInfo
    operand_performance: tuple[OperandPerformance, ...]
    if_performance: PerformanceInfo
    while_performance: PerformanceInfo

    def performance_of(self, code: int) -> PerformanceInfo:
        """The figures for an operand type; SLOWEST where the table does not have it."""
        return next((entry.info for entry in self.operand_performance if entry.type == code), SLOWEST)


@dataclass(frozen=True, slots=True)
class ExtensionOperandType:
    """One operand type of an extension; ``byte_size`` is that of one element."""

    type: int
    is_tensor: bool
    byte_size: int


@dataclass(frozen=True, slots=True)
class Extension:
    """A vendor's operand and operation types, known by name."""

    name: str
    operand_types: tuple[ExtensionOperandType, ...] = ()


CACHE_TOKEN_BYTES = 32
"""Of the token that names an entry of a compilation cache."""


@dataclass(frozen=True, slots=True)
class NumberOfCacheFiles:
    """How many files compilation caching takes; both zero means that the device does none."""

    num_model_cache: int = 0
    num_data_cache: int = 0
