"""LSTM as UNIDIRECTIONAL_SEQUENCE_LSTM, once for each direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array
from nnhal.types import OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter
from nnhal_frontends.onnx.ops._weights import required_constant

_ACTIVATIONS = {"Relu": 1, "Tanh": 4, "Sigmoid": 6}
"""The HAL's codes for activations of LSTM, which differ from those of fused activations."""
_GATES = {"input": 0, "output": 1, "forget": 2, "update": 3}
"""The positions of the gates in ONNX's weights."""
_ORDER = ("input", "forget", "update", "output")
"""The order of the gates in the HAL."""
_TIME_MAJOR = True
_PROJECTION_AND_ITS_BIAS = 2
_LAYER_NORMS = 4


@dataclass(frozen=True, slots=True)
class LstmSizes:
    """The sizes of a layer; ``steps`` is 0 if the number of time steps is unknown."""

    steps: int
    batch: int
    units: int
    directions: int


def lstm(b: NodeBuilder) -> None:
    """Weights [directions, 4 * units, ...] become four operands, one for each gate, in the HAL's order."""
    sizes, activation = _sizes(b), _activation(b)
    directions = [_run(b, sizes, direction, activation) for direction in range(sizes.directions)]
    sequences, outputs, cells = zip(*directions, strict=True)
    if b.used(0):
        _join(b, sequences, (sizes.steps, 1, sizes.batch, sizes.units), axis=1, index=0)
    for index, states in ((1, outputs), (2, cells)):
        if b.used(index):
            _join(b, states, (1, sizes.batch, sizes.units), axis=0, index=index)


def _sizes(b: NodeBuilder) -> LstmSizes:
    if b.attribute("layout", 0) or b.attribute("input_forget", 0) or "clip" in b.node.attributes:
        raise b.node.unsupported("layout, input_forget or clip", "none of them")
    steps, batch, _ = b.shape(0)
    lengths = b.constant(4)
    if b.has(4) and (lengths is None or not steps or (lengths != steps).any()):
        raise b.node.unsupported("sequences of different lengths", "sequences that fill the tensor")
    if not batch:
        raise b.node.unsupported("a batch of unknown size", "fixed shapes of the model's inputs")
    directions, _, units = required_constant(b, 2, "recurrent weights").shape
    return LstmSizes(steps, batch, units, directions)


def _activation(b: NodeBuilder) -> int:
    """Return the code of the activation of the update and the output. The HAL's gates always have a sigmoid."""
    names = [name.decode() if isinstance(name, bytes) else name for name in b.attribute("activations", [])]
    names = names or ["Sigmoid", "Tanh", "Tanh"]
    gates, own = set(names[::3]), {*names[1::3], *names[2::3]}
    if gates != {"Sigmoid"} or len(own) > 1 or not own <= set(_ACTIVATIONS):
        raise b.node.unsupported(f"activations {', '.join(names)}", "Sigmoid, then one of Tanh, Relu, Sigmoid twice")
    return _ACTIVATIONS[own.pop()]


def _run(b: NodeBuilder, sizes: LstmSizes, direction: int, activation: int) -> tuple[int, int, int]:
    """Add one direction; return its sequence [steps, batch, units], its last output and its last cell state."""
    backwards = direction == 1 or b.attribute("direction", "forward") == "reverse"
    weights, recurrent = (required_constant(b, index, "weights")[direction] for index in (1, 2))
    missing = b.absent(b.operand(b.input(0)).type)
    peepholes = [missing] * 3
    if b.has(7):
        first, output, forget = np.split(required_constant(b, 7, "peepholes")[direction], 3)
        peepholes = [b.array(values) for values in (first, forget, output)]
    source = _reversed(b, b.input(0)) if backwards else b.input(0)
    inputs = [source, *_gates(b, weights), *_gates(b, recurrent), *peepholes, *_gates(b, _bias(b, sizes, direction))]
    inputs += [missing] * _PROJECTION_AND_ITS_BIAS
    inputs += [_state(b, sizes, direction, index) for index in (5, 6)]
    inputs += [b.int32(activation), b.real(0.0), b.real(0.0), b.boolean(_TIME_MAJOR), *[missing] * _LAYER_NORMS]
    sequence, state, cell = b.apply_many(OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM, inputs, 3)
    if backwards and b.used(0):
        sequence = _reversed(b, sequence)
    return sequence, state, cell


def _reversed(b: NodeBuilder, operand: int) -> int:
    return b.apply(OperationType.REVERSE, [operand, b.vector([0])])


def _gates(b: NodeBuilder, values: Array) -> list[int]:
    parts = np.split(values, len(_GATES))
    return [b.array(parts[_GATES[name]]) for name in _ORDER]


def _bias(b: NodeBuilder, sizes: LstmSizes, direction: int) -> Array:
    """Return the sum of ONNX's two biases, for the input and for the state; zeros if they are left out."""
    if not b.has(3):
        return np.zeros(len(_GATES) * sizes.units, b.element_type())
    first, second = np.split(required_constant(b, 3, "bias")[direction], 2)
    total: Array = first + second
    return total


def _state(b: NodeBuilder, sizes: LstmSizes, direction: int, index: int) -> int:
    """Return an initial state [batch, units]; zeros if it is left out."""
    shape = (sizes.batch, sizes.units)
    if not b.has(index):
        b.reserve(shape, b.element_type())
        return b.array(np.zeros(shape, b.element_type()))
    values = b.constant(index)
    if values is not None:
        return b.array(values[direction])
    states = b.input(index)
    if sizes.directions > 1:
        states = b.apply(OperationType.SLICE, [states, b.vector([direction, 0, 0]), b.vector([1, *shape])])
    return b.reshape(states, shape)


def _join(b: NodeBuilder, operands: tuple[int, ...], shape: tuple[int, ...], axis: int, index: int) -> None:
    """Finish with the results of all directions, joined along an axis of their own."""
    if len(operands) == 1:
        b.finish_reshape(operands[0], index)
        return
    parts = [b.reshape(operand, shape) for operand in operands]
    b.finish(OperationType.CONCATENATION, [*parts, b.int32(axis)], index)


LSTM = Converter(lstm)
