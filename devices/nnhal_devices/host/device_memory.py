"""Memory domains: buffers that the device owns, usable in declared roles only, and the state that they are in."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import general_failure, invalid_argument
from nnhal.memory import FilePool, open_pool, validate_pool
from nnhal.types import Memory, Operand
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, combine, describe, fully_specified, is_scalar
from nnhal_devices.driver import Argument
from nnhal_devices.host.counters import Counters
from nnhal_devices.host.staging import aligned_base


@dataclass(frozen=True, slots=True)
class Role:
    """One use of a buffer, of the prepared model with this very identity: another one of the same model is another."""

    prepared: object
    is_output: bool
    index: int

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"


class MemoryBudget:
    """The memory that a device has for buffers. Safe to use from several threads."""

    def __init__(self, limit: int, alignment: int) -> None:
        self.limit = limit
        self._alignment = alignment
        self._lock = threading.Lock()
        self._used = 0
        # Memory is given back by finalizers, which run at any moment, even in a thread that holds the lock.
        self._returned: deque[int] = deque()

    @property
    def used(self) -> int:
        """Bytes in use."""
        with self._lock:
            return self._settled()

    def allocate(self, size: int) -> Bytes:
        """Zeroed memory, given back with its last view. Raises GENERAL_FAILURE where there is not that much."""
        with self._lock:
            if self._settled() + size > self.limit:
                general_failure(f"{size} bytes do not fit the device's memory: {self._used} of {self.limit} are in use")
            self._used += size
        try:
            base, start = aligned_base(size, self._alignment)
        except MemoryError:
            self._returned.append(size)
            general_failure(f"{size} bytes of memory are not to be had")
        weakref.finalize(base, self._returned.append, size).atexit = False
        return base[start : start + size]

    def _settled(self) -> int:
        while self._returned:
            self._used -= self._returned.popleft()
        return self._used


class DeviceBuffer:
    """A buffer with its state. Safe to use from several threads: what a race leaves undefined is the data only.

    ``version`` changes with whatever an execution is bound to: where the bytes lie, and what dimensions they have.
    """

    def __init__(
        self,
        operand: Operand,
        dimensions: Dimensions,
        roles: Iterable[Role],
        budget: MemoryBudget,
        counters: Counters,
    ) -> None:
        """For values like ``operand``, of combined ``dimensions``. Raises GENERAL_FAILURE where memory is short."""
        self._type = operand.type
        self._initial = dimensions
        self._roles = frozenset(roles)
        self._budget = budget
        self._counters = counters
        self._lock = threading.Lock()
        self._current = dimensions
        self._filled = 0
        self._initialised = False
        self._writers = 0
        self._released = False
        self._storage = budget.allocate(self._size(dimensions) or 0)
        self.version = 0

    @property
    def is_initialised(self) -> bool:
        """Whether there is something in it to read."""
        return self._initialised

    def release(self) -> None:
        """The client has given it up: no execution may begin to use it, those that run keep its memory."""
        self._released = True

    def copy_from(self, source: Memory, dimensions: Dimensions) -> None:
        """IBuffer.copyFrom. Raises INVALID_ARGUMENT or GENERAL_FAILURE; the buffer is then uninitialised."""
        try:
            given = self._dimensions_of_copy(dimensions)
            size = self._size(given) or 0
            self._require_size(validate_pool(source, "the source"), size, "source", given)
            pool = open_pool(source, writable=False)
            storage = self._storage_for(size)
            storage[:size] = pool.read(0, size) if isinstance(pool, FilePool) else pool.view(0, size)
        except BaseException:
            self.spoil()
            raise
        self._counters.add_buffer_copy(size)
        self._become(given)

    def copy_to(self, destination: Memory) -> None:
        """IBuffer.copyTo. Raises INVALID_ARGUMENT or GENERAL_FAILURE; the state stays as it is."""
        available = validate_pool(destination, "the destination")
        with self._lock:
            current, storage, initialised, filled = self._current, self._storage, self._initialised, self._filled
        size = filled if initialised else self._size(current)
        if size is not None:
            self._require_size(available, size, "destination", current)
        if not initialised or size is None:
            general_failure("the buffer is uninitialised: nothing was copied or written to it yet, or that failed")
        open_pool(destination, writable=True).write(0, storage[:size])
        self._counters.add_buffer_copy(size)

    def require_role(self, role: Role) -> None:
        """Raise INVALID_ARGUMENT where it was not allocated for this use of this very prepared model."""
        if role not in self._roles:
            invalid_argument(f"{role}: the buffer has no such role for this prepared model")

    def require_alive(self, role: Role) -> None:
        """Raise INVALID_ARGUMENT where it was released: no execution may begin."""
        if self._released:
            invalid_argument(f"{role} is a buffer that was released")

    def require_readable(self, dimensions: Dimensions, role: Role) -> None:
        """Check it as an input as far as can be said now; what a launched execution will write is seen when it has.

        Raises as ``input``.
        """
        if not self._writers:
            self.input(dimensions, role)

    def require_writable(self, dimensions: Dimensions, role: Role) -> Dimensions:
        """What model, request and buffer say together of it as an output.

        Raises INVALID_ARGUMENT where they contradict each other.
        """
        combined = combine(self._initial, dimensions)
        if combined is None:
            invalid_argument(f"{role} has dimensions {describe(dimensions)}, the buffer has {describe(self._initial)}")
        return combined

    def input(self, dimensions: Dimensions, role: Role) -> Argument:
        """It as an input, with the dimensions that model and request say.

        Raises GENERAL_FAILURE where it is uninitialised, INVALID_ARGUMENT where its dimensions are others.
        """
        with self._lock:
            if not self._initialised:
                general_failure(f"{role} is an uninitialised buffer")
            if not _within(dimensions, self._current):
                invalid_argument(f"{role} has dimensions {describe(dimensions)}, the buffer has {list(self._current)}")
            return Argument(self._storage[: self._filled], self._current)

    def output(self, dimensions: Dimensions, role: Role) -> Argument:
        """It as an output. Raises as ``require_writable``, and GENERAL_FAILURE where memory is short."""
        combined = self.require_writable(dimensions, role)
        size = self._size(combined)
        return Argument(self._storage if size is None else self._storage_for(size)[:size], combined)

    def require_ready(self, role: Role) -> None:
        """Check what may have changed since it was tied. Raises GENERAL_FAILURE where an input is uninitialised."""
        if not role.is_output and not self._initialised:
            general_failure(f"{role} is an uninitialised buffer")

    def make_room(self, dimensions: Dimensions) -> bool:
        """Whether there had to be made room for an output, and there is now. Raises GENERAL_FAILURE."""
        size = self._size(dimensions)
        if size is None or size <= len(self._storage) or not _within(self._initial, dimensions):
            return False
        self._storage_for(size)
        return True

    def begin_write(self) -> None:
        """An execution that will write it was launched."""
        with self._lock:
            self._writers += 1

    def end_write(self) -> None:
        """The execution has ended, and has said before what became of the buffer."""
        with self._lock:
            self._writers -= 1

    def wrote(self, dimensions: Dimensions) -> None:
        """An execution has filled it. Raises GENERAL_FAILURE where it cannot have these dimensions."""
        if not _within(self._initial, dimensions):
            self.spoil()
            general_failure(f"an output has dimensions {list(dimensions)}, its buffer {describe(self._initial)}")
        self._become(dimensions)

    def spoil(self) -> None:
        """What was to fill it has failed."""
        self._initialised = False

    def _become(self, dimensions: Dimensions) -> None:
        with self._lock:
            if self._current != dimensions:
                self._current = dimensions
                self.version += 1
            self._filled = ELEMENT_TYPES[self._type].itemsize * prod(dimensions)
            self._initialised = True

    def _storage_for(self, size: int) -> Bytes:
        """The memory, made larger where it is too small. Who still uses the smaller one keeps it."""
        with self._lock:
            if len(self._storage) < size:
                storage = self._budget.allocate(size)
                storage[: self._filled] = self._storage[: self._filled]  # whoever asks may fail before writing
                self._storage = storage
                self.version += 1
            return self._storage

    def _dimensions_of_copy(self, dimensions: Dimensions) -> Dimensions:
        if min(dimensions, default=0) < 0:
            invalid_argument(f"dimensions {list(dimensions)}, expected none below 0")
        if is_scalar(self._type) and dimensions:
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
        """Bytes, None where they do not follow from the dimensions."""
        if not fully_specified(self._type, dimensions):
            return None
        return ELEMENT_TYPES[self._type].itemsize * prod(dimensions)


class BufferUse(NamedTuple):
    """One argument of a request in device memory, with the dimensions that model and request say."""

    role: Role
    buffer: DeviceBuffer
    dimensions: Dimensions


class BufferUses:
    """The arguments of one request that lie in device memory."""

    def __init__(self, inputs: Sequence[BufferUse], outputs: Sequence[BufferUse]) -> None:
        """Raises INVALID_ARGUMENT where a buffer lacks a role, or is an output and used for something else as well."""
        for use in (*inputs, *outputs):
            use.buffer.require_role(use.role)
        written = [use.buffer for use in outputs]
        for use in outputs:
            if written.count(use.buffer) > 1 or any(other.buffer is use.buffer for other in inputs):
                invalid_argument(f"{use.role} is a buffer that another argument of the request uses too")
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._roles = tuple((use.buffer, use.role) for use in (*inputs, *outputs))

    @property
    def versions(self) -> tuple[int, ...]:
        """Changes whenever the arguments have to be tied anew."""
        return tuple([buffer.version for buffer, _ in self._roles])

    def require_alive(self) -> None:
        """Raise INVALID_ARGUMENT where one was released: an execution that has begun goes on, none may begin."""
        for buffer, role in self._roles:
            buffer.require_alive(role)

    def require_launchable(self) -> None:
        """Check what can be said before the fences have signalled. Raises HalError.

        Nothing changes: executions that come before this one may still write the same buffers.
        """
        self.require_alive()
        for use in self._inputs:
            use.buffer.require_readable(use.dimensions, use.role)
        for use in self._outputs:
            use.buffer.require_writable(use.dimensions, use.role)

    def require_ready(self) -> None:
        """Check what may have changed since the arguments were tied. Raises HalError."""
        for buffer, role in self._roles:
            buffer.require_ready(role)

    def fill(self, inputs: list[Argument], outputs: list[Argument]) -> None:
        """Put the buffers' memory into the arguments of a request. Raises HalError."""
        for use in self._inputs:
            inputs[use.role.index] = use.buffer.input(use.dimensions, use.role)
        for use in self._outputs:
            outputs[use.role.index] = use.buffer.output(use.dimensions, use.role)

    def make_room(self, dimensions: Sequence[Dimensions]) -> bool:
        """Whether outputs of these dimensions needed more memory than their buffers had."""
        grown = [use.buffer.make_room(dimensions[use.role.index]) for use in self._outputs]
        return any(grown)

    def begin(self) -> None:
        """An execution was launched."""
        for use in self._outputs:
            use.buffer.begin_write()

    def end(self) -> None:
        """A launched execution has ended."""
        for use in self._outputs:
            use.buffer.end_write()

    def wrote(self, outputs: Sequence[Dimensions]) -> None:
        """An execution has written all of its outputs. Raises GENERAL_FAILURE where a buffer cannot have its shape."""
        for use in self._outputs:
            use.buffer.wrote(outputs[use.role.index])

    def spoil(self) -> None:
        """An execution has failed."""
        for use in self._outputs:
            use.buffer.spoil()

    def is_output(self, index: int) -> bool:
        """Whether an output lies in device memory."""
        return any(use.role.index == index for use in self._outputs)


def _within(stated: Dimensions, actual: Dimensions) -> bool:
    """Whether values may have ``actual`` dimensions: a 0 there is an axis without elements, one in ``stated`` any."""
    return not stated or (len(stated) == len(actual) and all(s in (0, a) for s, a in zip(stated, actual, strict=True)))


def empty_argument(dimensions: Dimensions) -> Argument:
    """What stands for an argument in device memory until a run ties it."""
    return Argument(np.empty(0, np.uint8), dimensions)
