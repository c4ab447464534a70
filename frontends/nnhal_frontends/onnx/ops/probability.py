"""Sigmoid, Tanh, Softmax and LogSoftmax.

In quantised form the HAL fixes the scale of their results. If a model has another scale that is not much finer, the
result is rescaled.
"""

from __future__ import annotations

from math import prod

from nnhal.types import Operand, OperandType, OperationType
from nnhal_frontends.onnx.builder import OPERAND_TYPES, NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.qdq import QuantizedForm

_UINT8, _INT8 = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
_PROBABILITIES = {_UINT8: Operand(_UINT8, (), 1 / 256, 0), _INT8: Operand(_INT8, (), 1 / 256, -128)}
_RESULTS = {
    OperationType.LOGISTIC: _PROBABILITIES,
    OperationType.SOFTMAX: _PROBABILITIES,
    OperationType.TANH: {_UINT8: Operand(_UINT8, (), 1 / 128, 128), _INT8: Operand(_INT8, (), 1 / 128, 0)},
}
_FINEST = 0.9
"""The least scale, relative to the HAL's own, with which a rescaled result is off by at most one."""

_SINGLE_AXIS_OPSET = 13
"""From this opset on, Softmax normalises along one axis; before, over all axes from ``axis`` on."""


def sigmoid(b: NodeBuilder) -> None:
    """1 / (1 + exp(-x))."""
    _finish(b, OperationType.LOGISTIC, [b.input(0)])


def tanh(b: NodeBuilder) -> None:
    """The hyperbolic tangent."""
    _finish(b, OperationType.TANH, [b.input(0)])


def softmax(b: NodeBuilder) -> None:
    """Softmax along an axis."""
    _along_axis(b, OperationType.SOFTMAX)


def log_softmax(b: NodeBuilder) -> None:
    """The logarithm of softmax along an axis."""
    _along_axis(b, OperationType.LOG_SOFTMAX)


def _along_axis(b: NodeBuilder, code: OperationType) -> None:
    """Finish with an operation along one axis. Several axes are joined first."""
    shape = b.shape(0)
    rank = len(shape)
    single = b.graph.opset >= _SINGLE_AXIS_OPSET
    axis = b.attribute("axis", -1 if single else 1)
    axis += rank if axis < 0 else 0
    if single or (axis < rank and all(length == 1 for length in shape[axis + 1 :])):
        _finish(b, code, [b.input(0), *_parameters(b, code, axis, rank)])
        return
    together = (0 if 0 in shape[:axis] else prod(shape[:axis]), 0 if 0 in shape[axis:] else prod(shape[axis:]))
    _finish(b, code, [b.reshape(b.input(0), together), *_parameters(b, code, 1, 2)], reshape=True)


def _parameters(b: NodeBuilder, code: OperationType, axis: int, rank: int) -> list[int]:
    """Return beta and axis. The axis of SOFTMAX is left out if it is the last, as on the first feature level."""
    beta = b.real(1.0)
    if code == OperationType.SOFTMAX and axis == rank - 1:
        return [beta]
    return [beta, b.int32(axis)]


def _finish(b: NodeBuilder, code: OperationType, inputs: list[int], reshape: bool = False) -> None:
    wanted = b.operand(b.result())
    given = _RESULTS.get(code, {}).get(OperandType(wanted.type), wanted)
    same_scale = (given.scale, given.zero_point) == (wanted.scale, wanted.zero_point)
    if same_scale and not reshape:
        b.finish(code, inputs)
        return
    value = b.apply(code, inputs, like=given)
    if same_scale:
        b.finish_reshape(value)
    else:
        b.finish_rescaled(b.reshape(value, b.output_shape()) if reshape else value)


def _quantized(code: OperationType, form: QuantizedForm) -> bool:
    if not form.quant8(0):
        return False
    return form.output.scale >= _FINEST * _RESULTS[code][OPERAND_TYPES[form.output.element_type]].scale


SIGMOID = Converter(sigmoid, lambda form: _quantized(OperationType.LOGISTIC, form))
TANH = Converter(tanh, lambda form: _quantized(OperationType.TANH, form))
SOFTMAX = Converter(softmax, lambda form: _quantized(OperationType.SOFTMAX, form))
LOG_SOFTMAX = Converter(log_softmax)
