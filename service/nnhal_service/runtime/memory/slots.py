"""Slots: where the values of a context lie, and what is known of their dimensions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import general_failure, invalid_argument
from nnhal.extensions import size_in_bytes
from nnhal.memory import Pool, open_pool
from nnhal.types import Memory, RequestMemoryPool
from nnhal.types.layout import MAX_OPERAND_BYTES, Dimensions, combine, describe
from nnhal_service.run_memory import run_ashmem
from nnhal_service.runtime.memory.domains import BoundMemory

_WASTE = 5
"""A buffer grows by a fifth more than it must, so that it is large enough for the next run."""


@dataclass(frozen=True, slots=True)
class Element:
    """The element type of an operand; ``sizes`` has those of extension types."""

    code: int
    sizes: Mapping[int, int]

    def size(self, dimensions: Dimensions) -> int:
        """Bytes of a value; 0 if a dimension is unknown."""
        return size_in_bytes(self.code, dimensions, self.sizes)

    @property
    def least(self) -> int:
        """Bytes of one element."""
        return self.size((1,)) or 1


class MemoryRange(NamedTuple):
    """A range of memory, in bytes; a device's own buffer is used as a whole."""

    pool: RequestMemoryPool
    offset: int = 0
    length: int = 0
    padding: int = 0


class Slot(ABC):
    """Place of one value.

    ``stated`` are the dimensions that model and binding give, ``dimensions`` those of the current value. ``expected``
    are, for a value of the client, those that follow from the model's inputs if model and binding leave some unknown.
    ``name`` is the name of the model's output; empty for every other value.
    """

    def __init__(self, element: Element, stated: Dimensions, name: str = "", expected: Dimensions = ()) -> None:
        self.element = element
        self.name = name
        self.stated = stated
        self.dimensions = stated
        self.expected = expected
        self.is_empty = False
        """True if the 0 in its dimensions is a length: the current value has no elements."""
        self._opened: tuple[Memory, Pool] | None = None

    @property
    def has_value(self) -> bool:
        """Return whether there is a value; otherwise the input is omitted."""
        return True

    @property
    def has_room(self) -> bool:
        """Return whether the value may fit, by what is known before it is written."""
        return True

    @property
    def surely_fits(self) -> bool:
        """Return whether its size is known, and its memory has room for it. A device that says otherwise is wrong."""
        return False

    @property
    def is_lent(self) -> bool:
        """Return whether its device alone needs to know its size, which makes room for it."""
        return False

    @abstractmethod
    def to_read(self, own: bool) -> MemoryRange:
        """Return where the value is. ``own``: the step runs on its own device. Raises HalError or TransportError."""

    @abstractmethod
    def to_write(self, own: bool) -> MemoryRange:
        """Return where the value is to be written. Raises as ``to_read`` does."""

    def forget(self) -> None:
        """Forget what was learnt of the value; it is about to be written again."""
        self.dimensions, self.is_empty = self.stated, False

    def learn(self, dimensions: Dimensions) -> bool:
        """Grow for a value that did not fit; returns whether there is more room than before."""
        return False

    def written(self, own: bool, dimensions: Dimensions) -> None:
        """Note that a step has written it, with the dimensions that it reported. Raises HalError if they contradict."""
        known = combine(self.stated, dimensions) if 0 not in dimensions else dimensions
        if known is None:
            general_failure(
                f"a value of dimensions {describe(dimensions)} was written, expected {describe(self.stated)}"
            )
        self.dimensions, self.is_empty = known, 0 in dimensions

    def read(self) -> Bytes:
        """A copy of the value, for the framework itself. Raises as ``to_read`` does."""
        if self.is_empty:
            return np.empty(0, np.uint8)
        place = self.to_read(own=False)
        return self._open(place.pool).read(place.offset, place.length)

    def store(self, value: Bytes, dimensions: Dimensions) -> bool:
        """Write the value, by the framework itself; returns whether it fits. Raises as ``to_write`` does."""
        self.forget()
        self.dimensions = dimensions
        place = self.to_write(own=False)
        if place.length < len(value):
            return False
        self._open(place.pool, writable=True).write(place.offset, value)
        self.written(own=False, dimensions=dimensions)
        return True

    def _open(self, memory: RequestMemoryPool, writable: bool = False) -> Pool:
        """Map memory in this process; it is mapped once."""
        if isinstance(memory, int):
            general_failure("a device's own memory is used on the host")
        key, pool = self._opened or (None, None)
        if pool is None or key is not memory or (writable and not pool.writable):
            pool = open_pool(memory, writable)
            self._opened = memory, pool
        return pool


class HostSlot(Slot):
    """A range of memory that exists already: the client's, or in an arena."""

    def __init__(
        self, element: Element, stated: Dimensions, place: MemoryRange, name: str = "", expected: Dimensions = ()
    ) -> None:
        super().__init__(element, stated, name, expected)
        self._place = self._whole = place

    def resize(self, dimensions: Dimensions) -> None:
        """Have it be of these dimensions in the next run, in the memory that it has. Raises HalError."""
        size = self.element.size(dimensions)
        if size > self._whole.length:
            invalid_argument(f"an input of dimensions {list(dimensions)} takes {size} bytes, not {self._whole.length}")
        self.stated = self.dimensions = dimensions
        self.is_empty = 0 in dimensions
        self._place = self._whole._replace(length=size, padding=0)

    @property
    def has_room(self) -> bool:
        return self.element.size(self.expected) <= self._place.length

    @property
    def surely_fits(self) -> bool:
        return 0 < (self.element.size(self.stated) or self.element.size(self.expected)) <= self._place.length

    def to_read(self, own: bool) -> MemoryRange:
        size = self.element.size(self.dimensions) if self.dimensions != self.stated else 0
        if size > self._place.length:
            general_failure(f"a value takes {size} bytes, and its memory has {self._place.length}")
        return self._place._replace(length=size, padding=0) if size else self._place

    def to_write(self, own: bool) -> MemoryRange:
        size = self.element.size(self.expected)
        return self._place._replace(length=size) if 0 < size < self._place.length else self._place


class OmittedSlot(Slot):
    """An input without a value."""

    @property
    def has_value(self) -> bool:
        return False

    def to_read(self, own: bool) -> MemoryRange:
        general_failure("a value that is needed has been omitted")

    def to_write(self, own: bool) -> MemoryRange:
        return self.to_read(own)


class GrowingSlot(Slot):
    """Memory of the framework that grows as needed, and is kept from one run to the next."""

    def __init__(self, element: Element, stated: Dimensions) -> None:
        super().__init__(element, stated)
        self._memory: Memory | None = None
        self._capacity = 0

    @property
    def surely_fits(self) -> bool:
        return self.element.size(self.stated) > 0

    def to_read(self, own: bool) -> MemoryRange:
        size = self.element.size(self.dimensions)
        if self._memory is None or size > self._capacity:
            general_failure(f"a value takes {size} bytes, and its memory has {self._capacity}")
        return MemoryRange(self._memory, 0, size or self._capacity)

    def to_write(self, own: bool) -> MemoryRange:
        size = self.element.size(self.dimensions)
        memory = self._at_least(size or self.element.least)
        return MemoryRange(memory, 0, size or self._capacity)

    def learn(self, dimensions: Dimensions) -> bool:
        """Grow; to twice the size if the dimensions do not determine it."""
        needed = self.element.size(dimensions) or 2 * self._capacity
        if not self._capacity < needed <= MAX_OPERAND_BYTES:
            return False
        self._at_least(needed + needed // _WASTE if self.element.size(dimensions) else needed)
        return True

    def store(self, value: Bytes, dimensions: Dimensions) -> bool:
        self._at_least(len(value))
        return super().store(value, dimensions)

    def _at_least(self, size: int) -> Memory:
        if self._memory is None or size > self._capacity:
            self._memory, self._capacity = run_ashmem(size), size
        return self._memory


class DeviceSlot(Slot):
    """A device's own buffer, which only the plan's steps on that device can use; others get a copy on the host."""

    def __init__(
        self, element: Element, stated: Dimensions, memory: BoundMemory, name: str = "", expected: Dimensions = ()
    ) -> None:
        super().__init__(element, stated, name, expected)
        self._memory = memory
        self._staged: Memory | None = None

    @property
    def is_lent(self) -> bool:
        return self._memory.is_lent

    def to_read(self, own: bool) -> MemoryRange:
        if own:
            self.dimensions = combine(self._memory.dimensions, self.stated) or self.stated
            return MemoryRange(self._memory.pool)
        memory, held = self._memory.to_host()
        self.dimensions = combine(held, self.stated) or self.stated
        return MemoryRange(memory, 0, self.element.size(self.dimensions))

    def to_write(self, own: bool) -> MemoryRange:
        """Return where the value is to be written. Raises GENERAL_FAILURE if its size on the host is unknown."""
        if own:
            return MemoryRange(self._memory.pool)
        dimensions = combine(self.expected, self.dimensions) or ()
        size = self.element.size(dimensions)
        if not size:
            general_failure(
                f"a buffer of {self._memory.device} has dimensions {describe(dimensions)} and is to be written by "
                "another device: expected all dimensions to be known"
            )
        self._staged = run_ashmem(size)
        return MemoryRange(self._staged, 0, size)

    def written(self, own: bool, dimensions: Dimensions) -> None:
        super().written(own, dimensions)
        self.is_empty = False  # the device's own buffer has its dimensions
        known = combine(self.expected, self.dimensions) or self.dimensions
        if own:
            self._memory.written(known, True)
        elif self._staged is not None:
            staged, self._staged = self._staged, None
            self._memory.from_host(staged, known)
