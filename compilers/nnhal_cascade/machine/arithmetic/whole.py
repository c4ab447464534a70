"""Operations without a form for stripes: all of them, by cpu_ref's kernel, and then the box."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels import KERNELS
from nnhal_cascade.geometry.box import Box, whole
from nnhal_cascade.machine.arithmetic.kernel import OperationCall, executing


class Whole:
    """Any operation. Each box costs as much as the whole output."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = tuple(call.shape(index) for index in call.activations)
        self._call = call

    def reads(self, output: Box) -> tuple[Box, ...]:
        """Everything."""
        return tuple(whole(shape) for shape in self.inputs)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """The box of the whole output."""
        call = self._call
        given = {
            index: np.ascontiguousarray(each).reshape(call.op.dimensions(index))
            for index, each in zip(call.activations, values, strict=True)
        }
        with np.errstate(all="ignore"):
            results = KERNELS[call.op.type](executing(call.op, given))
        return results[call.position].reshape(call.output)[tuple(slice(*interval) for interval in output)]
