"""QUANTIZE, DEQUANTIZE and CAST: other element types."""

from __future__ import annotations

import numpy as np
from onnx import helper

from nnhal.types import OperandType
from nnhal_devices.cpu_acc.elements import KEPT_TYPES
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_INPUT = 0


def requantize(to: Emitter) -> None:
    """QUANTIZE and DEQUANTIZE: the reals are the same, and the graph converts them on either side."""
    layout = to.common_layout((_INPUT,))
    to.keep_real(to.real(_INPUT, layout), layout)


def cast(to: Emitter) -> None:
    """The stored numbers in another type; those of bytes are clamped."""
    layout = to.common_layout((_INPUT,))
    tensor, given, asked = to.kept(_INPUT, layout), to.op.main_type(), to.op.outputs[0].type
    if given != asked:
        if asked == OperandType.TENSOR_QUANT8_ASYMM:
            bounds = (to.graph.constant(np.array(bound, KEPT_TYPES[given])) for bound in (0, 255))
            tensor = to.graph.add("Clip", tensor, *bounds)
        tensor = to.graph.add("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(KEPT_TYPES[asked]))
    to.keep(tensor, layout)
