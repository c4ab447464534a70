"""LSTM cells with random weights, and a reference implementation in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.types import OperandType
from tests.support.operations import Given, absent, tensor

BATCH, INPUT, UNITS = 3, 5, 4
Four = list[Any]
"""Arrays of the four gates; None for one that the form lacks."""


@dataclass(frozen=True)
class Form:
    """Optional parts of a cell."""

    coupled: bool = False
    """Whether the input gate is coupled to the forget gate."""
    peephole: bool = False
    """Whether the gates read the memory."""
    projection: int = 0
    """The number of projected units; 0 without a projection."""
    projection_bias: bool = False
    """Whether the projection has a bias."""
    layer_norm: bool = False
    """Whether the gates are normalised."""
    aux: int = 0
    """The size of the auxiliary input; 0 without one."""
    cell_clip: float = 0.0
    """The limit of the memory; 0 for none."""
    projection_clip: float = 0.0
    """The limit of the projection; 0 for none."""

    @property
    def output_size(self) -> int:
        """The number of units, or of projected units."""
        return self.projection or UNITS


FORMS = {
    "plain": Form(),
    "coupled": Form(coupled=True),
    "peephole": Form(peephole=True),
    "coupled with peephole": Form(coupled=True, peephole=True),
    "projection": Form(projection=2),
    "projection with bias": Form(projection=6, projection_bias=True),
    "layer norm": Form(layer_norm=True),
    "clips": Form(projection=2, cell_clip=0.25, projection_clip=0.125),
    "coupled with everything": Form(True, True, 2, True, True, 0, 0.5, 0.25),
    "everything": Form(False, True, 2, True, True, 0, 0.5, 0.25),
}


@dataclass(frozen=True)
class Weights:
    """The weights of one cell; groups of four are in the order input, forget, update, output."""

    form: Form
    """The parts that the cell has."""
    weights: Four
    """Of shape [units, input]."""
    recurrent: Four
    """Of shape [units, output]."""
    peephole: Four
    """Of shape [units]; never for the update."""
    bias: Four
    """Of shape [units]."""
    layer_norm: Four
    """Of shape [units]."""
    aux: Four
    """Of shape [units, auxiliary input]."""
    projection: Array | None
    """Of shape [projected units, units]."""
    projection_bias: Array | None
    """Of shape [projected units]."""

    def givens(self, code: OperandType) -> list[Given]:
        """Return the 17 operands from the input weights to the projection bias, in the order of the operations."""
        gates = (0, 1, 3)
        return [
            *as_givens(code, self.weights),
            *as_givens(code, self.recurrent),
            *as_givens(code, [self.peephole[i] for i in gates]),
            *as_givens(code, self.bias),
            *as_givens(code, [self.projection, self.projection_bias]),
        ]


def as_givens(code: OperandType, values: Four) -> list[Given]:
    """Return operands, with None as an omitted one."""
    return [absent(code) if value is None else tensor(code, value) for value in values]


def random_weights(form: Form, seed: int = 0, inputs: int = INPUT) -> Weights:
    """Return random weights of moderate size, which float16 represents exactly."""
    rng = np.random.default_rng(seed)

    def values(*shape: int) -> Array:
        return np.round(rng.normal(0, 0.6, shape) * 64) / 64

    def four(present: bool, *shape: int, input_gate: bool = True) -> Four:
        return [values(*shape) if present and (i or (input_gate and not form.coupled)) else None for i in range(4)]

    peephole = four(form.peephole, UNITS)
    peephole[2] = None
    return Weights(
        form,
        four(True, UNITS, inputs),
        four(True, UNITS, form.output_size),
        peephole,
        four(True, UNITS),
        four(form.layer_norm, UNITS),
        four(bool(form.aux), UNITS, form.aux),
        values(form.projection, UNITS) if form.projection else None,
        values(form.projection) if form.projection_bias else None,
    )


def without_aux(weights: Weights) -> Weights:
    """Return an equivalent cell whose input is the input and the auxiliary input, concatenated."""
    pairs = zip(weights.weights, weights.aux, strict=True)
    joined = [None if w is None or a is None else np.hstack([w, a]) for w, a in pairs]
    return replace(weights, weights=joined, aux=[None] * 4, form=replace(weights.form, aux=0))


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    result: Array = 1 / (1 + np.exp(-x))
    return result


def expected_step(cell: Weights, values: Array, output: Array, memory: Array) -> tuple[Array, Array]:
    """Return output and memory after one step, by the formulas of the NNAPI documentation, with tanh as activation."""
    form = cell.form

    def gate(number: int, seen: Array) -> Array:
        total: Array = values @ cell.weights[number].T + output @ cell.recurrent[number].T
        if cell.peephole[number] is not None:
            total = total + cell.peephole[number] * seen
        if cell.layer_norm[number] is not None:
            total = (total - total.mean(1, keepdims=True)) / total.std(1, keepdims=True) * cell.layer_norm[number]
        total += cell.bias[number]
        return total

    def clip(x: Array, limit: float) -> Array:
        return np.clip(x, -limit, limit) if limit else x

    forget = sigmoid(gate(1, memory))
    admit = 1 - forget if form.coupled else sigmoid(gate(0, memory))
    memory = clip(forget * memory + admit * np.tanh(gate(2, memory)), form.cell_clip)
    result = sigmoid(gate(3, memory)) * np.tanh(memory)
    if cell.projection is not None:
        bias = 0 if cell.projection_bias is None else cell.projection_bias
        result = clip(result @ cell.projection.T + bias, form.projection_clip)
    return result, memory


def expected_sequence(cell: Weights, values: Array, output: Array, memory: Array) -> tuple[Array, Array, Array]:
    """Return outputs [time, batch, size], last output and last memory for values [time, batch, input]."""
    outputs = []
    for step in values:
        output, memory = expected_step(cell, step, output, memory)
        outputs.append(output)
    return np.array(outputs), output, memory
