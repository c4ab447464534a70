"""Inputs for a layer by itself that show more than those that it has in the model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnhal.arrays import Array
from nnhal.types import OperandType, OperationType
from nnhal_tools.diff.subject import ComparedLayer, Subject, Values
from nnhal_tools.distance import Figures

_FEW_ELEMENTS, _PERMUTATIONS = 512, 16
_FARTHEST: dict[int, float] = {
    OperationType.EXP: 80.0,
    OperationType.ELU: 100.0,
    OperationType.LOGISTIC: 100.0,
    OperationType.LOG_SOFTMAX: 100.0,
    OperationType.SOFTMAX: 100.0,
    OperationType.TANH: 100.0,
}
"""Operations with exponentials, and how far their inputs are from zero: e to the 100 is no float32, e to the 80 is."""


def harder_inputs(
    subject: Subject, layer: ComparedLayer, known: Values, made: Mapping[int, Figures], half: bool
) -> tuple[list[Values], str]:
    """Return samples for a layer of one operation, and words for them; none if its own inputs show enough.

    ``known`` are its inputs in the first sample. ``made`` are its figures on all of them.
    """
    (number,) = layer.operations
    farthest = _FARTHEST.get(subject.model.main.operations[number].type)
    inputs = [subject.operand(value).type for value in layer.inputs]
    if farthest is not None and not half and inputs == [OperandType.TENSOR_FLOAT32]:
        ((value, array),) = known.items()
        return [{value: _spread(array, farthest)}], f"on inputs from {-farthest:g} to {farthest:g}"
    few = sum(figures.elements for figures in made.values()) < _FEW_ELEMENTS
    if few and any(figures.mismatching and figures.steps for figures in made.values()):
        source = np.random.default_rng(0)
        samples: list[Values] = [
            {value: source.permutation(array.reshape(-1)).reshape(array.shape) for value, array in known.items()}
            for _ in range(_PERMUTATIONS)
        ]
        return samples, "on its inputs in other orders"
    return [], ""


def _spread(like: Array, farthest: float) -> Array:
    """Values from one end to the other, in an order in which neighbours are far apart."""
    values = np.linspace(-farthest, farthest, like.size, dtype=like.dtype)
    return np.random.default_rng(0).permutation(values).reshape(like.shape)
