"""Which operations ethos_u takes, and why not the others."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, OperationLimit, Support, Unsupported
from nnhal.support.npu import NpuSupport
from nnhal.types import OperationType
from nnhal_cascade.rules import RULES
from nnhal_cascade.rules.limits import MAX_EXTENT


def operation_limits() -> list[OperationLimit]:
    """Return what it takes of each operation that it has."""
    return _SUPPORT.operation_limits()


def supported_operations(model: ResolvedModel) -> list[Support]:
    """Return an answer for each operation of the main subgraph."""
    return _SUPPORT.supported_operations(model)


def _computed(op: OperationContext) -> Support:
    """Refuse operations on nothing but constants."""
    if not all(op.is_known(index) for index in RULES[op.type].tensors(op)):
        return SUPPORTED
    hint = "fold constants when the network is exported"
    return Unsupported("CONSTANT", "constants as the only inputs", "an input that is computed or fed", hint)


_SUPPORT = NpuSupport(
    "ethos_u",
    RULES,
    {
        OperationType.QUANTIZE: "its input is of floats: feed the network 8-bit values, or quantise on a CPU device",
        OperationType.DEQUANTIZE: "its output is of floats: read 8-bit values, or dequantise on a CPU device",
    },
    MAX_EXTENT,
    MAX_EXTENT,
    _computed,
)
