"""The inputs and outputs of a model, as values of the user and as bytes in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal.extensions.values import Value, value_from_bytes, value_to_bytes
from nnhal.memory import MappedPool, create_ashmem, create_blob, open_pool, seal_for_readers
from nnhal.memory.arena import round_up
from nnhal.types import DataLocation, Memory
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, describe

ALIGNMENT = 64
"""The alignment, in bytes, that the HAL recommends for arguments."""
_BLOB, _BLOB_BYTES = "hardware_buffer_blob", 1 << 31
"""The kind of memory, and more bytes than the integers of its handle can say."""
GUESS = 4096
"""The first guess, in bytes, for an output of unknown size."""


class ClientMemory(NamedTuple):
    """The memory of a model's inputs and outputs of which devices copy the least."""

    kind: str = "ashmem"
    """As edges of a plan have it."""
    alignment: int = ALIGNMENT
    """Bytes, of which each offset is a multiple."""

    def create(self, size: int, name: str = "nnhal-client") -> Memory:
        """Create ``size`` bytes, above 0, to which seals can be added; ashmem if a BLOB cannot be so large."""
        if self.kind == _BLOB and size < _BLOB_BYTES:
            return create_blob(size, is_final=False)
        return create_ashmem(size, name, is_final=False)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a model. If it is quantised, real = (value - zero_point) * scale."""

    name: str
    """The name in the model file."""
    type: int
    """The operand's type, which may be one of an extension."""
    dimensions: Dimensions
    """0 for an axis of unknown size; [1] for a tensor of rank 0."""
    byte_size: int
    """Size in bytes, 0 if a dimension is unknown."""
    scale: float
    """Quantisation scale, 0 if it is not quantised."""
    zero_point: int
    """Quantisation zero point."""
    element_type: np.dtype[np.generic] | None
    """The model's own element type; None if the value is not a tensor of numbers (strings, sequences, optionals)."""
    stored: np.dtype[np.generic]
    """The type of an element in memory."""
    scalar: bool = False
    """True if the model's tensor has rank 0."""
    index: int | None = None
    """Its index in the graph of a TFLite file, where names may be empty or repeated."""

    @property
    def is_open(self) -> bool:
        """Return whether some of its dimensions are unknown before a run."""
        return self.byte_size == 0

    def bytes_of(self, dimensions: Dimensions) -> int:
        """Return its size in bytes for given dimensions."""
        return self.stored.itemsize * prod(dimensions)

    def view(self, pool: MappedPool, offset: int, dimensions: Dimensions) -> Array:
        size = self.bytes_of(dimensions)
        return pool.view(offset, max(1, size))[:size].view(self.stored).reshape(dimensions)

    def array(self, value: Value) -> Array:
        """Convert a value to the form that it has in memory; without a copy if it has that form already.

        Raises ValueError if the value is not what the model expects.
        """
        if self.element_type is None:
            return np.frombuffer(value_to_bytes(value), np.uint8)
        given = np.asarray(value)
        shape = () if self.scalar else self.dimensions
        fits = self.is_open or given.shape == shape or (self.scalar and given.shape == (1,))
        if given.dtype not in (self.element_type, self.stored) or not fits:
            raise ValueError(mismatch(self.name, given, self.element_type, describe(shape)))
        stored = given.astype(self.stored, copy=False)
        if stored is not given and given.dtype.kind == "i" and not np.array_equal(stored, given):
            raise ValueError(f"input {self.name!r} has values that do not fit {self.stored}")
        return stored.reshape(1) if self.scalar else stored

    def value(self, view: Array) -> Value:
        """Copy a value out of memory in the user's form."""
        if self.element_type is None:
            return value_from_bytes(view)
        copied = view.astype(self.element_type)
        return copied.reshape(()) if self.scalar else copied


def stored_type(code: int, element_type: np.dtype[np.generic] | None) -> np.dtype[np.generic]:
    """Return an element's type in memory, by the operand's code: the HAL's, else the model's own, else bytes."""
    return ELEMENT_TYPES.get(code, np.dtype(np.uint8) if element_type is None else element_type)


def mismatch(name: str, given: Array, element_type: object, shape: str) -> str:
    """Describe an input's array that has the wrong type or shape. ``shape`` is the right one in words."""
    return f"input {name!r} is {given.dtype} {list(given.shape)}, expected {element_type} {shape}"


def stored_inputs(tensors: Sequence[Tensor], inputs: Mapping[str, Value]) -> dict[str, Array]:
    """Convert all inputs to the form that they have in memory. Raises ValueError."""
    known = {tensor.name: tensor for tensor in tensors}
    if inputs.keys() != known.keys():
        raise ValueError(f"got inputs {sorted(inputs)}, expected {sorted(known)}")
    return {name: tensor.array(inputs[name]) for name, tensor in known.items()}


class TensorMemory:
    """Memory of this process for the inputs and outputs of a model: a pool for each of the two, which devices map.

    Inputs are written through ``views`` of this process only, if the kernel can hold others to that (Linux 5.1). Values
    are aligned.
    """

    def __init__(
        self,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        create: Callable[[int], Memory],
        alignment: int = ALIGNMENT,
    ) -> None:
        """``inputs`` and ``outputs`` are bytes by name, and no name is in both. ``create`` makes a pool of so many
        bytes to which seals can be added, and which is mapped. Raises as ``create`` and ``open_pool``.
        """
        self.pools: list[Memory] = []
        self.opened: list[MappedPool] = []
        """The pools, mapped in this process."""
        self.locations: dict[str, DataLocation] = {}
        """Of inputs and outputs in the pools."""
        for sizes in filter(None, (inputs, outputs)):
            offset = 0
            for name, size in sizes.items():
                self.locations[name] = DataLocation(len(self.pools), offset, size)
                offset += round_up(size, alignment)
            memory = create(max(1, offset))
            pool = open_pool(memory, writable=True)
            if not isinstance(pool, MappedPool):
                raise TypeError(f"memory of kind {type(memory).__name__} is mapped")
            if sizes is inputs:
                seal_for_readers(memory)
            self.pools.append(memory)
            self.opened.append(pool)

    def pool_of(self, name: str) -> MappedPool:
        """Return the pool of an input or output. Raises KeyError."""
        return self.opened[self.locations[name].pool_index]
