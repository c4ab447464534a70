"""Operands of the HAL as values of a flow graph.

Of 8-bit operands the flow knows signed ones with a zero point of 0. An unsigned operand with a zero point of 128 holds
the same numbers: its bytes differ from the signed ones in their highest bit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import channel_quant
from nnhal.operations._types import Q8A, Q8AS, Q8C
from nnhal.types import Operand
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_mlip.flow.graph.flow_graph import FlowValue

ZERO_POINTS: Mapping[int, int] = {Q8A: 128, Q8AS: 0}
"""The zero points of activations that stand for signed numbers around 0."""
_HIGHEST_BIT = np.uint8(0x80)
_BYTE = np.dtype(np.int8)
_OPAQUE = np.dtype(np.uint8)


def is_symmetric(operand: Operand) -> bool:
    """Return whether an operand's bytes stand for signed numbers around 0."""
    return operand.type == Q8C or ZERO_POINTS.get(operand.type) == operand.zero_point


def flow_value(operand: Operand, dimensions: Dimensions) -> FlowValue:
    """Return the type of the value that holds an operand."""
    if operand.type in ZERO_POINTS:
        return FlowValue(dimensions, _BYTE, (operand.scale,))
    return FlowValue(dimensions, ELEMENT_TYPES.get(operand.type, _OPAQUE))


def scales_of(operand: Operand) -> tuple[tuple[float, ...], int]:
    """Return the scales of a constant and the axis that they belong to; none for floats and integers."""
    if operand.type == Q8C:
        quantisation = channel_quant(operand)
        return tuple(quantisation.scales), quantisation.channel_dim
    return ((operand.scale,), 0) if operand.type in ZERO_POINTS else ((), 0)


def signed(operand: Operand, values: Array) -> Array:
    """Return an operand's elements as the flow has them: bytes as signed numbers."""
    return (values ^ _HIGHEST_BIT).view(_BYTE) if operand.type == Q8A else values


def unsigned(operand: Operand, values: Array) -> Array:
    """Return elements of the flow as an operand has them: the inverse of ``signed``. Floats change their width."""
    if operand.type == Q8A:
        return values.view(np.uint8) ^ _HIGHEST_BIT
    return values.astype(ELEMENT_TYPES[operand.type], copy=False)
