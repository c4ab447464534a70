"""Speed of cpu_acc: ONNX Runtime on one core, as measured on a current x86 server.

The figures of the capabilities are cautious: on MobileNet-like networks it is faster than they say.
"""

from __future__ import annotations

from nnhal.types import Capabilities, OperandPerformance, OperandType, PerformanceInfo
from nnhal_devices.roofline import Roofline

ROOFLINE = Roofline(
    overhead_ns=3_000,
    bytes_per_ns=18,
    default_macs_per_ns=4,
    macs_per_ns={
        OperandType.TENSOR_FLOAT32: 40,
        OperandType.TENSOR_FLOAT16: 20,
        OperandType.TENSOR_QUANT8_ASYMM: 50,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED: 50,
    },
)

_AS_THE_REFERENCE = PerformanceInfo(exec_time=1.0, power_usage=1.0)
_FLOAT32 = PerformanceInfo(exec_time=0.2, power_usage=0.4)
_FLOAT16 = PerformanceInfo(exec_time=0.25, power_usage=0.5)
_QUANT8 = PerformanceInfo(exec_time=0.1, power_usage=0.2)

_BY_TYPE = {
    OperandType.FLOAT32: _FLOAT32,
    OperandType.FLOAT16: _FLOAT16,
    OperandType.TENSOR_FLOAT32: _FLOAT32,
    OperandType.TENSOR_FLOAT16: _FLOAT16,
    OperandType.TENSOR_QUANT8_ASYMM: _QUANT8,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: _QUANT8,
    OperandType.TENSOR_QUANT8_SYMM: _QUANT8,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL: _QUANT8,
}

CAPABILITIES = Capabilities(
    relaxed_float32_to_float16_scalar=_FLOAT32,
    relaxed_float32_to_float16_tensor=_FLOAT32,
    operand_performance=tuple(
        OperandPerformance(code, _BY_TYPE.get(code, _AS_THE_REFERENCE))
        for code in OperandType
        if code != OperandType.SUBGRAPH
    ),
    if_performance=_AS_THE_REFERENCE,
    while_performance=_AS_THE_REFERENCE,
)
