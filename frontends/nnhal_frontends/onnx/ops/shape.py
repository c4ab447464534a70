"""Concat, Flatten, Identity, Pad, Reshape, Squeeze, Transpose and Unsqueeze."""

from __future__ import annotations

from math import prod

import numpy as np

from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.fusion import padding_value, paddings_of
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.qdq import QuantizedForm

_REFLECT = 0
_ASKED = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose second input says what becomes of the shape."""


def reshape(b: NodeBuilder) -> None:
    """RESHAPE to the inferred shape, for all operators that only change the shape.

    What is to become of the shape must be known: a shape that comes with a run is not inferred, and may not fit.
    """
    if b.node.op_type in _ASKED and b.node.input(1) and b.constant(1) is None:
        raise b.node.unsupported(f"'{b.node.input(1)}' is computed at run time", "a constant")
    b.finish_reshape(b.input(0))


def transpose(b: NodeBuilder) -> None:
    """TRANSPOSE, by default with reversed axes. Attribute ``via`` of a fused node is a shape to reshape to first."""
    via = b.attribute("via", None)
    if via is not None:
        _transpose_via(b, via)
        return
    order = b.attribute("perm", list(reversed(range(len(b.shape(0))))))
    b.finish(OperationType.TRANSPOSE, [b.input(0), b.vector(order)])


def _transpose_via(b: NodeBuilder, via: Dimensions) -> None:
    """Finish with CHANNEL_SHUFFLE if only two neighbours within one axis of the input are swapped."""
    order, shape = b.attribute("perm", []), b.shape(0)
    first = next((place for place, axis in enumerate(order) if place != axis), 0)
    swapped = order == [*range(first), first + 1, first, *range(first + 2, len(via))]
    after = prod(via[first + 2 :])
    for axis, length in enumerate(shape):
        rest = prod(shape[axis + 1 :])
        if swapped and shape == b.output_shape() and length == via[first] * via[first + 1] and after == rest != 0:
            b.finish(OperationType.CHANNEL_SHUFFLE, [b.input(0), b.int32(via[first]), b.int32(axis)])
            return
    b.finish_reshape(b.apply(OperationType.TRANSPOSE, [b.reshape(b.input(0), via), b.vector(order)]))


def concat(b: NodeBuilder) -> None:
    """CONCATENATION."""
    axis = b.attribute("axis", 0)
    axis += len(b.output_shape()) if axis < 0 else 0
    tensors = [b.input(index) for index in range(len(b.node.inputs))]
    b.finish(OperationType.CONCATENATION, [*tensors, b.int32(axis)])


def pad(b: NodeBuilder) -> None:
    """PAD for zeros, PAD_V2 for other constants, MIRROR_PAD for reflections."""
    pads = paddings_of(b.graph, b.node)
    if pads is None:
        raise b.node.unsupported("its pads are computed at run time", "constant pads")
    if np.min(pads, initial=0) < 0:
        raise b.node.unsupported("negative pads", "pads of 0 or more")
    paddings = b.add_constant(OperandType.TENSOR_INT32, np.array(pads))
    mode, value = b.attribute("mode", "constant"), padding_value(b.graph, b.node)
    if mode == "reflect":
        b.finish(OperationType.MIRROR_PAD, [b.input(0), paddings, b.int32(_REFLECT)])
    elif mode != "constant" or value is None:
        got = f"mode {mode}" if mode != "constant" else "a value that is computed at run time"
        raise b.node.unsupported(got, "mode constant with a constant value, mode reflect")
    elif value == 0:
        b.finish(OperationType.PAD, [b.input(0), paddings])
    else:
        b.finish(OperationType.PAD_V2, [b.input(0), paddings, b.real(value)])


def _quantized_concat(form: QuantizedForm) -> bool:
    return form.quant8(*range(len(form.node.inputs)))


CONCAT = Converter(concat, _quantized_concat)
PAD = Converter(pad)
RESHAPE = Converter(reshape)
TRANSPOSE = Converter(transpose)
