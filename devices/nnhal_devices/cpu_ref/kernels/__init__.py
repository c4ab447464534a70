"""The arithmetic of the operations: one pure function for each, arrays in and arrays out.

A kernel takes an OperationContext whose values are all known, and gives one array for each output, in the output's
element type and dimensions.
"""

from __future__ import annotations

from collections.abc import Callable

from nnhal.operations import OperationContext
from nnhal.types import OperationType
from nnhal_devices.cpu_ref.kernels import binary, softmax
from nnhal_devices.cpu_ref.kernels._types import Array

Kernel = Callable[[OperationContext], tuple[Array, ...]]

KERNELS: dict[OperationType, Kernel] = {
    OperationType.ADD: binary.add,
    OperationType.DIV: binary.div,
    OperationType.MUL: binary.mul,
    OperationType.SOFTMAX: softmax.softmax,
    OperationType.SUB: binary.sub,
}
"""Every operation that cpu_ref computes."""
