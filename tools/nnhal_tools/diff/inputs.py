"""The samples on which a model is compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_frontends.imported import ImportedTensor
from nnhal_tools.diff.subject import Subject
from nnhal_tools.element_types import number_type_of


def random_inputs(subject: Subject, seed: int) -> dict[str, Array]:
    """Return random arrays by the names of inputs: 8-bit integers of all values, floats from 0 to 1, other integers 0.

    Raises ValueError if an input is no tensor of numbers or has open dimensions.
    """
    generator = np.random.default_rng(seed)
    return {tensor.name: _random(tensor, generator) for tensor in subject.imported.inputs}


def stored_sample(subject: Subject, arrays: Mapping[str, Array]) -> dict[int, Array]:
    """Return a sample by operand, as it lies in memory, with the first values of states.

    Raises ValueError if an array does not fit in the type that the HAL has for it.
    """
    tensors = {tensor.name: tensor for tensor in subject.imported.inputs}
    found = {tensors[name].operand: _stored(subject, tensors[name], array) for name, array in arrays.items()}
    return {**found, **{state.before.operand: state.initial for state in subject.imported.states}}


def _random(tensor: ImportedTensor, generator: np.random.Generator) -> Array:
    kind = tensor.element_type
    if kind.hasobject:
        raise ValueError(f"input {tensor.name!r} is {tensor.kind or 'no tensor of numbers'}: give it by --input")
    if 0 in tensor.shape:
        raise ValueError(
            f"input {tensor.name!r} has open dimensions {describe(tensor.shape)}: fix them by --dim or --shape, or "
            "give it by --input"
        )
    if kind.kind in "iu" and kind.itemsize == 1:
        least = -128 if kind.kind == "i" else 0
        return generator.integers(least, least + 256, tensor.shape).astype(kind)
    if kind.kind == "b":
        return generator.integers(0, 2, tensor.shape).astype(kind)
    if kind.kind in "iu":
        return np.zeros(tensor.shape, kind)
    return np.asarray(generator.random(tensor.shape)).astype(kind)


def _stored(subject: Subject, tensor: ImportedTensor, array: Array) -> Array:
    wanted = number_type_of(subject.model, subject.operand(tensor.operand).type)
    if wanted is None:
        raise ValueError(f"input {tensor.name!r} is {tensor.kind or 'no tensor of numbers'}, expected numbers")
    stored = np.atleast_1d(array).astype(wanted)
    if array.dtype.kind in "iu" and not np.array_equal(stored, np.atleast_1d(array)):
        raise ValueError(f"input {tensor.name!r} has values that do not fit {wanted}")
    return stored
