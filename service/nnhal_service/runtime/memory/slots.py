"""Where the values of a context lie, and what is known of their dimensions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from nnhal.arrays import Bytes
from nnhal.errors import general_failure
from nnhal.extensions import size_in_bytes
from nnhal.memory import Pool, create_ashmem, open_pool
from nnhal.types import Memory, RequestMemoryPool
from nnhal.types.layout import MAX_OPERAND_BYTES, Dimensions, combine, describe
from nnhal_service.runtime.memory.domains import BoundMemory

_WASTE = 5
"""A buffer that grows takes a fifth more than it has to, so that the next run finds it large enough."""


@dataclass(frozen=True, slots=True)
class Element:
    """An operand's type; ``sizes`` are those of extension types."""

    code: int
    sizes: Mapping[int, int]

    def size(self, dimensions: Dimensions) -> int:
        """Bytes of a value; 0 where something is unknown."""
        return size_in_bytes(self.code, dimensions, self.sizes)

    @property
    def least(self) -> int:
        """Bytes of one element."""
        return self.size((1,)) or 1


class MemoryRange(NamedTuple):
    """A range of memory, in bytes; all of it where it is a device's own."""

    pool: RequestMemoryPool
    offset: int = 0
    length: int = 0
    padding: int = 0


class Slot(ABC):
    """Where one value lies.

    ``stated`` are the dimensions that model and binding say, ``dimensions`` those of the value as far as known.
    ``expected`` are those that model and binding leave open and the model's inputs make it have, where it is the
    client's. ``name`` is that of the model's output, empty for all else.
    """

    def __init__(self, element: Element, stated: Dimensions, name: str = "", expected: Dimensions = ()) -> None:
        self.element = element
        self.name = name
        self.stated = stated
        self.dimensions = stated
        self.expected = expected
        self._opened: tuple[Memory, Pool] | None = None

    @property
    def has_value(self) -> bool:
        """Whether there is anything; else the input is omitted."""
        return True

    @property
    def has_room(self) -> bool:
        """Whether the value may fit, by what is known before it is there."""
        return True

    @abstractmethod
    def to_read(self, own: bool) -> MemoryRange:
        """Where the value is. ``own``: the step runs where the plan has it. Raises HalError, or TransportError."""

    @abstractmethod
    def to_write(self, own: bool) -> MemoryRange:
        """Where the value is to go. Raises as ``to_read``."""

    def forget(self) -> None:
        """The value is written anew: what was learnt of it does not hold any more."""
        self.dimensions = self.stated

    def learn(self, dimensions: Dimensions) -> bool:
        """Make room for a value that did not fit, of dimensions as far as known; whether there is more than before."""
        return False

    def written(self, own: bool, dimensions: Dimensions) -> None:
        """A step has written it, with these dimensions where it said any. Raises HalError where they cannot be."""
        known = combine(self.stated, dimensions) if 0 not in dimensions else dimensions
        if known is None:
            general_failure(
                f"a value of dimensions {describe(dimensions)} was written, expected {describe(self.stated)}"
            )
        self.dimensions = known

    def read(self) -> Bytes:
        """A copy of the value, for the runtime itself. Raises as ``to_read``."""
        place = self.to_read(own=False)
        return self._open(place.pool).read(place.offset, place.length)

    def store(self, value: Bytes, dimensions: Dimensions) -> bool:
        """Write the value, by the runtime itself; whether there is room for it. Raises as ``to_write``."""
        self.forget()
        self.dimensions = dimensions
        place = self.to_write(own=False)
        if place.length < len(value):
            return False
        self._open(place.pool, writable=True).write(place.offset, value)
        self.written(own=False, dimensions=dimensions)
        return True

    def _open(self, memory: RequestMemoryPool, writable: bool = False) -> Pool:
        """Memory to be used here; it is mapped once."""
        if isinstance(memory, int):
            general_failure("a device's own memory is used on the host")
        key, pool = self._opened or (None, None)
        if pool is None or key is not memory or (writable and not pool.writable):
            pool = open_pool(memory, writable)
            self._opened = memory, pool
        return pool


class HostSlot(Slot):
    """A range of memory that is there already: the client's, or of an arena."""

    def __init__(
        self, element: Element, stated: Dimensions, place: MemoryRange, name: str = "", expected: Dimensions = ()
    ) -> None:
        super().__init__(element, stated, name, expected)
        self._place = place

    @property
    def has_room(self) -> bool:
        """See Slot."""
        return self.element.size(self.expected) <= self._place.length

    def to_read(self, own: bool) -> MemoryRange:
        """See Slot."""
        size = self.element.size(self.dimensions) if self.dimensions != self.stated else 0
        if size > self._place.length:
            general_failure(f"a value takes {size} bytes, and its memory has {self._place.length}")
        return self._place._replace(length=size, padding=0) if size else self._place

    def to_write(self, own: bool) -> MemoryRange:
        """See Slot."""
        size = self.element.size(self.expected)
        return self._place._replace(length=size) if 0 < size < self._place.length else self._place


class OmittedSlot(Slot):
    """An input without a value."""

    @property
    def has_value(self) -> bool:
        """See Slot."""
        return False

    def to_read(self, own: bool) -> MemoryRange:
        """See Slot."""
        general_failure("a value that is needed has been omitted")

    def to_write(self, own: bool) -> MemoryRange:
        """See Slot."""
        return self.to_read(own)


class GrowingSlot(Slot):
    """Memory of the framework's own, as much as turns out to be needed. It is kept from one run to the next."""

    def __init__(self, element: Element, stated: Dimensions) -> None:
        super().__init__(element, stated)
        self._memory: Memory | None = None
        self._capacity = 0

    def to_read(self, own: bool) -> MemoryRange:
        """See Slot."""
        size = self.element.size(self.dimensions)
        if self._memory is None or size > self._capacity:
            general_failure(f"a value takes {size} bytes, and its memory has {self._capacity}")
        return MemoryRange(self._memory, 0, size or self._capacity)

    def to_write(self, own: bool) -> MemoryRange:
        """See Slot."""
        size = self.element.size(self.dimensions)
        memory = self._at_least(size or self.element.least)
        return MemoryRange(memory, 0, size or self._capacity)

    def learn(self, dimensions: Dimensions) -> bool:
        """See Slot. Twice as much where the dimensions do not say."""
        needed = self.element.size(dimensions) or 2 * self._capacity
        if not self._capacity < needed <= MAX_OPERAND_BYTES:
            return False
        self._at_least(needed + needed // _WASTE if self.element.size(dimensions) else needed)
        return True

    def store(self, value: Bytes, dimensions: Dimensions) -> bool:
        """See Slot."""
        self._at_least(len(value))
        return super().store(value, dimensions)

    def _at_least(self, size: int) -> Memory:
        if self._memory is None or size > self._capacity:
            self._memory, self._capacity = create_ashmem(size), size
        return self._memory


class DeviceSlot(Slot):
    """A device's own buffer, which only the steps of the plan can use; for all else the value lies on the host."""

    def __init__(
        self, element: Element, stated: Dimensions, memory: BoundMemory, name: str = "", expected: Dimensions = ()
    ) -> None:
        super().__init__(element, stated, name, expected)
        self._memory = memory
        self._staged: Memory | None = None

    def to_read(self, own: bool) -> MemoryRange:
        """See Slot."""
        if own:
            return MemoryRange(self._memory.pool)
        memory = self._memory.to_host()
        return MemoryRange(memory, 0, self.element.size(combine(self._memory.dimensions, self.dimensions) or ()))

    def to_write(self, own: bool) -> MemoryRange:
        """See Slot. Raises GENERAL_FAILURE where the host does not know how much memory it takes."""
        if own:
            return MemoryRange(self._memory.pool)
        dimensions = combine(self.expected, self.dimensions) or ()
        size = self.element.size(dimensions)
        if not size:
            general_failure(
                f"a buffer of {self._memory.device} has dimensions {describe(dimensions)}, and is to be written on "
                "another device: expected all known"
            )
        self._staged = create_ashmem(size)
        return MemoryRange(self._staged, 0, size)

    def written(self, own: bool, dimensions: Dimensions) -> None:
        """See Slot."""
        super().written(own, dimensions)
        known = combine(self.expected, self.dimensions) or self.dimensions
        if own:
            self._memory.written(known, True)
        elif self._staged is not None:
            staged, self._staged = self._staged, None
            self._memory.from_host(staged, known)
