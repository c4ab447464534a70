"""The performance figures of cpu_ref: it is the reference, so every ratio is 1."""

from __future__ import annotations

from nnhal.types import Capabilities, OperandPerformance, OperandType, PerformanceInfo

_REFERENCE = PerformanceInfo(exec_time=1.0, power_usage=1.0)

CAPABILITIES = Capabilities(
    relaxed_float32_to_float16_scalar=_REFERENCE,
    relaxed_float32_to_float16_tensor=_REFERENCE,
    operand_performance=tuple(
        OperandPerformance(code, _REFERENCE) for code in OperandType if code != OperandType.SUBGRAPH
    ),
    if_performance=_REFERENCE,
    while_performance=_REFERENCE,
)
