"""The arithmetic of a stripe: every operation, for any box of its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels import KERNELS
from nnhal.lazy_table import LazyTable
from nnhal.operations import DEFINITIONS
from nnhal.types import OperandType, OperationType
from nnhal_cascade.geometry.box import Box
from nnhal_cascade.graph.islands import REDUCTIONS
from nnhal_cascade.graph.matchers.build import MATCHERS
from nnhal_cascade.machine.arithmetic.kernel import NoStripesError, OperationCall, StripeKernel, executing, shape_of
from nnhal_cascade.machine.arithmetic.tables import FloatElements

STRIPE_KERNELS: Mapping[OperationType, Callable[[OperationCall], StripeKernel]] = LazyTable(
    __name__,
    {
        OperationType.ABS: "tables:UnaryTable",
        OperationType.ADD: "tables:PairTable",
        OperationType.AVERAGE_POOL_2D: "pooling:Pooling",
        OperationType.CONCATENATION: "movement:Concatenation",
        OperationType.CONV_2D: "convolution:Convolution",
        OperationType.DEPTHWISE_CONV_2D: "depthwise:Depthwise",
        OperationType.DEQUANTIZE: "tables:UnaryTable",
        OperationType.ELU: "tables:UnaryTable",
        OperationType.EXPAND_DIMS: "movement:Same",
        OperationType.FULLY_CONNECTED: "convolution:FullyConnected",
        OperationType.HARD_SWISH: "tables:UnaryTable",
        OperationType.LOGISTIC: "tables:UnaryTable",
        OperationType.MAXIMUM: "tables:PairTable",
        OperationType.MAX_POOL_2D: "pooling:Pooling",
        OperationType.MEAN: "along_axes:Mean",
        OperationType.MINIMUM: "tables:PairTable",
        OperationType.MUL: "tables:PairTable",
        OperationType.PAD: "movement:Padding",
        OperationType.PAD_V2: "movement:Padding",
        OperationType.PRELU: "tables:PairTable",
        OperationType.QUANTIZE: "tables:UnaryTable",
        OperationType.RELU: "tables:UnaryTable",
        OperationType.RELU1: "tables:UnaryTable",
        OperationType.RELU6: "tables:UnaryTable",
        OperationType.RESHAPE: "movement:Same",
        OperationType.RESIZE_BILINEAR: "resize:Bilinear",
        OperationType.RESIZE_NEAREST_NEIGHBOR: "resize:NearestNeighbour",
        OperationType.RSQRT: "tables:UnaryTable",
        OperationType.SLICE: "movement:RangeSelection",
        OperationType.SOFTMAX: "along_axes:Softmax",
        OperationType.SPLIT: "movement:RangeSelection",
        OperationType.SQUEEZE: "movement:Same",
        OperationType.STRIDED_SLICE: "movement:RangeSelection",
        OperationType.SUB: "tables:PairTable",
        OperationType.TANH: "tables:UnaryTable",
        OperationType.TRANSPOSE_CONV_2D: "convolution:TransposeConvolution",
    },
)


def stripe_kernel(call: OperationCall) -> StripeKernel:
    """Return the kernel of an operation. One that has no form for stripes is always computed as a whole."""
    op = call.op
    if op.inputs[0].type == OperandType.TENSOR_FLOAT32:
        return Whole(call) if op.type in REDUCTIONS else FloatElements(call)
    if op.type not in STRIPE_KERNELS:
        return Whole(call)
    try:
        return STRIPE_KERNELS[op.type](call)
    except NoStripesError:
        return Whole(call)


class Whole:
    """Any operation. Each box costs as much as the whole output, of which the rest is computed from zeros."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = tuple(call.shape(index) for index in call.activations)
        self._call = call
        outputs = [shape_of(dimensions) for dimensions in DEFINITIONS[call.op.type].prepare(call.op)]
        self._readings = MATCHERS[call.op.type](call.op, outputs)[call.position].readings

    def reads(self, output: Box) -> tuple[Box, ...]:
        """Return what the planner thinks that it needs."""
        return tuple(
            Box(*(access.needs(wanted) for access, wanted in zip(reading.accesses, output, strict=True)))
            for reading in self._readings
        )

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        call = self._call
        given = {}
        for index, box, each in zip(call.activations, self.reads(output), values, strict=True):
            whole = np.zeros(call.shape(index), each.dtype)
            whole[_slices(box)] = each
            given[index] = whole.reshape(call.op.dimensions(index))
        with np.errstate(all="ignore"):
            results = KERNELS[call.op.type](executing(call.op, given))
        return results[call.position].reshape(call.output)[_slices(output)]


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*interval) for interval in box)
