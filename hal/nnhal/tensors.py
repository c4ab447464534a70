"""The inputs and outputs of a model, as the user has them and as they lie in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.extensions.values import Value, value_from_bytes, value_to_bytes
from nnhal.memory import MappedPool
from nnhal.memory.arena import round_up
from nnhal.types import DataLocation
from nnhal.types.layout import ELEMENT_TYPES, Dimensions

ALIGNMENT = 64
"""Bytes; what the HAL recommends for arguments."""
GUESS = 4096
"""Bytes for an output of unknown size, at first."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a model. Quantised ones: real = (value - zero_point) * scale.

    ``type`` is the operand's, which may be one of an extension. ``element_type`` is the model's own, None for what is
    no tensor of numbers (strings, sequences, optionals); ``stored`` is that in memory. A tensor of rank 0 has
    dimensions [1] and is a ``scalar``.
    """

    name: str
    type: int
    dimensions: Dimensions
    byte_size: int
    scale: float
    zero_point: int
    element_type: np.dtype[np.generic] | None
    stored: np.dtype[np.generic]
    scalar: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its dimensions are not all known before a run."""
        return self.byte_size == 0

    def bytes_of(self, dimensions: Dimensions) -> int:
        """Its bytes in given dimensions."""
        return self.stored.itemsize * prod(dimensions)

    def view(self, pool: MappedPool, offset: int, dimensions: Dimensions) -> Array:
        """What lies in a pool, in place."""
        size = self.bytes_of(dimensions)
        return pool.view(offset, max(1, size))[:size].view(self.stored).reshape(dimensions)

    def array(self, value: Value) -> Array:
        """A value as it lies in memory; the value's own memory where it lies so already.

        Raises ValueError where it is not what the model takes.
        """
        if self.element_type is None:
            return np.frombuffer(value_to_bytes(value), np.uint8)
        given = np.asarray(value)
        shape = () if self.scalar else self.dimensions
        fits = self.is_open or given.shape == shape or (self.scalar and given.shape == (1,))
        if given.dtype not in (self.element_type, self.stored) or not fits:
            raise ValueError(mismatch(self.name, given, self.element_type, shape))
        stored = given.astype(self.stored, copy=False)
        if stored is not given and given.dtype.kind == "i" and not np.array_equal(stored, given):
            raise ValueError(f"input {self.name!r} has values that do not fit {self.stored}")
        return stored.reshape(1) if self.scalar else stored

    def value(self, view: Array) -> Value:
        """A copy of what lies in memory, as the user has it."""
        if self.element_type is None:
            return value_from_bytes(view)
        copied = view.astype(self.element_type)
        return copied.reshape(()) if self.scalar else copied


def stored_type(code: int, element_type: np.dtype[np.generic] | None) -> np.dtype[np.generic]:
    """The type of an element in memory, by the operand's code: that of the HAL, else the model's own, else bytes."""
    return ELEMENT_TYPES.get(code, np.dtype(np.uint8) if element_type is None else element_type)


def mismatch(name: str, given: Array, element_type: object, shape: Sequence[int]) -> str:
    """What is wrong with an input's array."""
    return f"input {name!r} is {given.dtype} {list(given.shape)}, expected {element_type} {list(shape)}"


def stored_inputs(tensors: Sequence[Tensor], inputs: Mapping[str, Value]) -> dict[str, Array]:
    """All inputs as they lie in memory. Raises ValueError."""
    known = {tensor.name: tensor for tensor in tensors}
    if inputs.keys() != known.keys():
        raise ValueError(f"got inputs {sorted(inputs)}, expected {sorted(known)}")
    return {name: tensor.array(inputs[name]) for name, tensor in known.items()}


def lay_out(sizes: Mapping[str, int], alignment: int = ALIGNMENT) -> tuple[dict[str, DataLocation], int]:
    """Where tensors lie in one pool, each aligned, and the pool's bytes."""
    locations: dict[str, DataLocation] = {}
    offset = 0
    for name, size in sizes.items():
        locations[name] = DataLocation(0, offset, size)
        offset += round_up(size, alignment)
    return locations, offset
