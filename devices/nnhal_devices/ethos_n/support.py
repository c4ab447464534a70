"""Operations that ethos_n takes, and its reasons to refuse the others."""

from __future__ import annotations

from nnhal.resolved import ResolvedModel
from nnhal.support import OperationLimit, Support
from nnhal.support.npu import NpuSupport
from nnhal.types import OperationType
from nnhal_devices.ethos_n.limits import MAX_DEPTH, MAX_SIDE
from nnhal_devices.ethos_n.table import TABLE

_SUPPORT = NpuSupport(
    "ethos_n",
    {code: row.rule for code, row in TABLE.items()},
    {
        OperationType.QUANTIZE: "its input is of floats: feed the network 8-bit values, or quantise on a CPU device",
        OperationType.DEQUANTIZE: "its output is of floats: read 8-bit values, or dequantise on a CPU device",
        OperationType.SOFTMAX: "end the part for the NPU at the logits",
        OperationType.PAD: "give the padding to the convolution or pooling that follows, in its explicit form",
    },
    MAX_SIDE,
    MAX_DEPTH,
)


def operation_limits() -> list[OperationLimit]:
    return _SUPPORT.operation_limits()


def supported_operations(model: ResolvedModel) -> list[Support]:
    return _SUPPORT.supported_operations(model)
