"""Computation by the host of operations that the flow cannot have: by cpu_ref's kernel, on real numbers.

Values of a flow graph are real numbers: quantised operands are quantised before the kernel and dequantised behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.kernels import KERNELS
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.types import Operand
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import Evaluate


def host_evaluation(op: OperationContext | None, computed: Sequence[int], place: str) -> Evaluate:
    """Return what computes an operation from the real numbers of some of its inputs, the others being constants.

    Args:
        op: The operation; None for one that cpu_ref does not have either.
        computed: The positions of the inputs that are no constants.
        place: The user's name of the operation, for errors.
    """

    def evaluate(inputs: Sequence[Array]) -> list[Array]:
        if op is None or op.type not in KERNELS:
            raise FlowError(f"node '{place}': got an operation that the host cannot compute, expected one of NNAPI's")
        values = {
            position: quantised(op.inputs[position], array) for position, array in zip(computed, inputs, strict=True)
        }
        try:
            with np.errstate(all="ignore"):
                call = _with_values(op, values)
                DEFINITIONS[op.type].prepare(call)
                results = KERNELS[op.type](call)
        except (HalError, UnknownYet, ValueError, IndexError, ArithmeticError) as error:
            raise FlowError(f"node '{place}': {error}") from error
        return [dequantised(operand, array) for operand, array in zip(op.outputs, results, strict=True)]

    return evaluate


def quantised(operand: Operand, array: Array) -> Array:
    """Return real numbers in the type of an operand; other arrays are converted to it."""
    dtype = ELEMENT_TYPES[operand.type]
    if operand.scale and dtype.kind in "iu" and array.dtype.kind == "f":
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        codes = array.astype(np.float64) / operand.scale
        codes = np.trunc(codes + np.copysign(0.5, codes)) + operand.zero_point
        return np.clip(codes, limits.min, limits.max).astype(dtype)
    return array.astype(dtype, copy=False)


def dequantised(operand: Operand, array: Array) -> Array:
    """Return the real numbers of a quantised operand, and floats as float32; other arrays as they are."""
    if operand.scale and array.dtype.kind in "iu":
        return (array.astype(np.float32) - np.float32(operand.zero_point)) * np.float32(operand.scale)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _with_values(op: OperationContext, values: dict[int, Array]) -> OperationContext:
    def value_of(index: int) -> Array | None:
        return values[index] if index in values else op.value(index)

    def dimensions_of(index: int) -> Dimensions:
        return values[index].shape if index in values else op.dimensions(index)

    return OperationContext(op.type, op.place, op.inputs, op.outputs, value_of, dimensions_of, op.relaxed)
