"""Memory domains: buffers that the device owns, usable in declared roles only, and their state."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, prod
from operator import le
from typing import ClassVar, NamedTuple

from nnhal.arrays import Bytes
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.memory import FilePool, open_pool, validate_bytes
from nnhal.shares import acting_for, tenant
from nnhal.types import Memory, Operand
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, combine, describe, fits, fully_specified, is_scalar
from nnhal_devices.driver import Argument
from nnhal_devices.host.memory.budget import DeviceMemoryBudget
from nnhal_devices.host.memory.counters import Counters

_UNINITIALISED = "the buffer is uninitialised: nothing was copied or written to it yet, or that failed"


@dataclass(frozen=True, slots=True)
class ArgumentRole:
    """One argument of one prepared model, known by its identity: the same model prepared twice has two."""

    prepared: object
    is_output: bool
    index: int

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"


class BufferContents(NamedTuple):
    """Content of a buffer at a moment."""

    bytes: int
    """Those that it occupies."""

    dimensions: Dimensions
    is_initialised: bool


class DeviceBuffer:
    """A buffer with its state. Safe to use from several threads: a race leaves only the data undefined.

    Its bytes are in the device's memory. ``_storage`` is the host's view of them, which is fetched before it is read,
    and stored after it was written. ``version`` changes with all that an execution is bound to: the address of the
    bytes, and their dimensions.
    """

    kind: ClassVar[str] = "buffer"

    def __init__(
        self,
        operand: Operand,
        dimensions: Dimensions,
        roles: Iterable[ArgumentRole],
        budget: DeviceMemoryBudget,
        counters: Counters,
        largest: Dimensions = (),
    ) -> None:
        """For values like ``operand``, of combined ``dimensions``. If ``largest`` is given, they grow up to these at
        the most; an axis that is 0 there has no limit, and memory doubles.

        Raises INVALID_ARGUMENT if the two contradict each other, GENERAL_FAILURE if memory is short.
        """
        if largest and not within(dimensions, largest):
            invalid_argument(f"a buffer of at most {list(largest)}, its values have {describe(dimensions)}")
        self.type = operand.type
        self._element_bytes = ELEMENT_TYPES[operand.type].itemsize
        self._initial = self.initial_dimensions = dimensions
        self.roles = frozenset(roles)
        self._budget = budget
        self._client = tenant()
        self._counters = counters
        self._lock = threading.Lock()
        self._growing = threading.Lock()
        self.dimensions = dimensions
        """Those of the value that it holds; before the first, those that are known."""
        self._filled = 0
        self.is_initialised = False
        """True if it holds a value."""
        self._writers = 0
        self.is_released = False
        """True if its client has released it."""
        self.largest_dimensions = largest
        self._most = [length or inf for length in largest]
        self._storage = budget.allocate(self._size(largest or dimensions) or 0)
        self.version = 0

    def release(self) -> None:
        """Release it for the client: no execution may begin to use it, and those that run keep its memory."""
        self.is_released = True
        self._budget.changes += 1

    @property
    def contents(self) -> BufferContents:
        """Return what it holds now."""
        with self._lock:
            return BufferContents(len(self._storage), self.dimensions, self.is_initialised)

    @property
    def held_dimensions(self) -> Dimensions:
        """The dimensions of the value that it holds. Raises GENERAL_FAILURE if it is uninitialised."""
        with self._lock:
            if not self.is_initialised:
                general_failure(_UNINITIALISED)
            return self.dimensions

    @property
    def limits(self) -> str:
        """Its largest dimensions in words; empty if it has none."""
        return f", of at most {describe(self.largest_dimensions)}" if self.largest_dimensions else ""

    def values(self) -> tuple[Bytes, Dimensions] | None:
        """Return a copy of what it holds, with its dimensions; None if it is uninitialised. Raises HalError."""
        with self._lock:
            current, storage, initialised, filled = self.dimensions, self._storage, self.is_initialised, self._filled
        if not initialised:
            return None
        self._budget.memory.fetch(storage[:filled])
        return storage[:filled].copy(), current

    def copy_from(self, source: Memory, dimensions: Dimensions) -> None:
        """IBuffer.copyFrom. Raises INVALID_ARGUMENT or GENERAL_FAILURE, and leaves the buffer uninitialised then."""
        try:
            given = self._dimensions_of_copy(dimensions)
            size = self._size(given) or 0
            self._require_size(validate_bytes(source, "the source"), size, "source", given)
            pool = open_pool(source, writable=False)
            storage = self._storage_for(size)
            storage[:size] = pool.read(0, size) if isinstance(pool, FilePool) else pool.view(0, size)
            self._budget.memory.store(storage[:size])
        except BaseException:
            self.spoil()
            raise
        self._counters.add_buffer_copy(size, is_output=False)
        self._become(given)

    def become_empty(self, dimensions: Dimensions) -> None:
        """Hold a value of these dimensions, of which one is 0. Raises INVALID_ARGUMENT."""
        if 0 not in dimensions or not within(self._initial, dimensions):
            invalid_argument(f"an empty value of {list(dimensions)} for a buffer of {describe(self._initial)}")
        self._become(dimensions)

    def copy_to(self, destination: Memory) -> None:
        """IBuffer.copyTo. Raises INVALID_ARGUMENT or GENERAL_FAILURE; the state stays as it is."""
        available = validate_bytes(destination, "the destination")
        with self._lock:
            current, storage, initialised, filled = self.dimensions, self._storage, self.is_initialised, self._filled
        size = filled if initialised else self._size(current)
        if size is not None:
            self._require_size(available, size, "destination", current)
        if not initialised or size is None:
            general_failure(_UNINITIALISED)
        pool = open_pool(destination, writable=True)
        self._budget.memory.fetch(storage[:size])
        pool.write(0, storage[:size])
        self._counters.add_buffer_copy(size, is_output=True)

    def require_role(self, role: ArgumentRole) -> None:
        """Raise INVALID_ARGUMENT if the buffer was not allocated for this role."""
        if role not in self.roles:
            invalid_argument(f"{role}: the buffer has no such role for this prepared model")

    def require_alive(self, role: ArgumentRole) -> None:
        """Raise INVALID_ARGUMENT if the buffer was released: no execution may begin."""
        if self.is_released:
            invalid_argument(f"{role} is a buffer that was released")

    def require_written(self, role: ArgumentRole) -> None:
        """Raise GENERAL_FAILURE if it is uninitialised, unless a launched execution has yet to write it."""
        if not self._writers and not self.is_initialised:
            general_failure(f"{role} is an uninitialised buffer")

    def require_readable(self, dimensions: Dimensions, role: ArgumentRole) -> None:
        """Check it as an input, unless a launched execution has yet to write it. Raises as ``input``."""
        if not self._writers:
            self.input(dimensions, role)

    def require_writable(self, dimensions: Dimensions, role: ArgumentRole) -> Dimensions:
        """Combine the dimensions that model, request and buffer give for it as an output.

        Raises INVALID_ARGUMENT if they contradict each other.
        """
        combined = combine(self._initial, dimensions)
        if combined is None:
            invalid_argument(f"{role} has dimensions {describe(dimensions)}, the buffer has {describe(self._initial)}")
        return combined

    def input(self, dimensions: Dimensions, role: ArgumentRole) -> Argument:
        """The argument for an input, with the dimensions that model and request give.

        Raises GENERAL_FAILURE if the buffer is uninitialised, INVALID_ARGUMENT if it has other dimensions.
        """
        with self._lock:
            if not self.is_initialised:
                general_failure(f"{role} is an uninitialised buffer")
            if not within(dimensions, self.dimensions):
                invalid_argument(
                    f"{role} has dimensions {describe(dimensions)}, the buffer has {list(self.dimensions)}"
                )
            return Argument(self._storage[: self._filled], self.dimensions)

    @property
    def changes(self) -> int:
        """Differs from what it was if a buffer of the device has changed since, in more than its bytes."""
        return self._budget.changes

    @property
    def storage(self) -> Bytes:
        """Its memory now."""
        return self._storage

    def dimensions_in(self, storage: Bytes, dimensions: Dimensions, role: ArgumentRole) -> Dimensions | None:
        """The dimensions of its value as an input; None if its memory is no longer this. Raises as ``input``."""
        with self._lock:
            if self.is_initialised and self._storage is storage and dimensions == self._initial:
                return self.dimensions  # which has those, since it may have no others
        held = self.input(dimensions, role)
        return held.dimensions if self._storage is storage else None

    def output(self, dimensions: Dimensions, role: ArgumentRole) -> Argument:
        """The argument for an output. Raises as ``require_writable``, and GENERAL_FAILURE if memory is short."""
        combined = self.require_writable(dimensions, role)
        size = self._size(combined)
        return Argument(self._storage if size is None else self._storage_for(size)[:size], combined)

    def require_ready(self, role: ArgumentRole) -> None:
        """Check what may have changed since it was bound. Raises GENERAL_FAILURE if an input is uninitialised."""
        if not role.is_output and not self.is_initialised:
            general_failure(f"{role} is an uninitialised buffer")

    def make_room(self, dimensions: Dimensions) -> bool:
        """Grow it for an output of these dimensions, and return whether it had to grow. Raises GENERAL_FAILURE."""
        size = self._element_bytes * prod(dimensions)
        if size <= len(self._storage) or not self._may_have(dimensions):
            return False
        try:
            self._storage_for(2 * size if self.largest_dimensions else size)  # values that grow are likely to grow on
        except HalError:
            self._storage_for(size)
        return True

    def begin_write(self) -> None:
        """Note that an execution that will write it was launched."""
        with self._lock:
            self._writers += 1

    def end_write(self) -> None:
        """Note that the execution has ended; it has called ``wrote`` or ``spoil`` before."""
        with self._lock:
            self._writers -= 1

    def wrote(self, dimensions: Dimensions) -> None:
        """Note that an execution has filled it. Raises GENERAL_FAILURE if it cannot have these dimensions."""
        if not self._may_have(dimensions):
            self.spoil()
            general_failure(
                f"an output has dimensions {list(dimensions)}, its buffer {describe(self._initial)}{self.limits}"
            )
        self._become(dimensions)

    def spoil(self) -> None:
        """Make it uninitialised: an execution or a copy that was to fill it has failed."""
        self.is_initialised = False
        self._budget.changes += 1

    def _may_have(self, dimensions: Dimensions) -> bool:
        return within(self._initial, dimensions) and all(map(le, dimensions, self._most))

    def _become(self, dimensions: Dimensions) -> None:
        with self._lock:
            if self.is_initialised and self.dimensions == dimensions:
                return
            if self.dimensions != dimensions:
                self.dimensions = dimensions
                self.version += 1
            self._filled = self._element_bytes * prod(dimensions)
            self.is_initialised = True
        self._budget.changes += 1

    def _storage_for(self, size: int) -> Bytes:
        """The memory, replaced by a larger one if it is too small. Views keep the smaller one alive."""
        if len(self._storage) >= size:
            return self._storage
        with self._growing:
            if len(self._storage) < size:
                with acting_for(self._client):
                    storage = self._budget.allocate(size)
                if self.is_initialised:  # the caller may fail before it writes
                    self._carry_over(self._storage[: self._filled], storage[: self._filled])
                with self._lock:
                    self._storage = storage
                    self.version += 1
                self._budget.changes += 1
            return self._storage

    def _carry_over(self, old: Bytes, new: Bytes) -> None:
        """Copy the values from one memory to another. Raises HalError."""
        self._budget.memory.fetch(old)
        new[:] = old
        self._budget.memory.store(new)

    def _dimensions_of_copy(self, dimensions: Dimensions) -> Dimensions:
        if min(dimensions, default=0) < 0:
            invalid_argument(f"dimensions {list(dimensions)}, expected none below 0")
        if is_scalar(self.type) and dimensions:
            invalid_argument(f"dimensions {describe(dimensions)} for a scalar")
        combined = combine(self._initial, dimensions)
        if combined is None or (dimensions and 0 in dimensions):
            invalid_argument(
                f"dimensions {describe(dimensions)}, expected all known and like the buffer's {describe(self._initial)}"
            )
        if self._size(combined) is None:
            invalid_argument(f"no dimensions for a buffer of {describe(self._initial)}, expected all of them")
        return combined

    def _require_size(self, available: int, size: int, what: str, dimensions: Dimensions) -> None:
        if available != size:
            invalid_argument(
                f"a {what} of {available} bytes, expected {size} for a buffer of dimensions {describe(dimensions)}"
            )

    def _size(self, dimensions: Dimensions) -> int | None:
        """Size in bytes; None if it does not follow from the dimensions."""
        if not fully_specified(self.type, dimensions):
            return None
        return self._element_bytes * prod(dimensions)


def within(stated: Dimensions, actual: Dimensions) -> bool:
    """True if ``actual`` fits ``stated``. A 0 in ``stated`` is an unknown axis, one in ``actual`` an empty axis."""
    return not stated or fits(actual, stated)
