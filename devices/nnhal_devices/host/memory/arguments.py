"""The arguments of a request that lie in device memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import invalid_argument
from nnhal.extensions import size_in_bytes
from nnhal.memory import GuardedRegion
from nnhal.types import Operand
from nnhal.types.layout import Dimensions, describe
from nnhal_devices.driver import Argument
from nnhal_devices.host.memory.device_memory import ArgumentRole, DeviceBuffer, within
from nnhal_devices.host.memory.staging import Staged, UsedPool


class BufferUse(NamedTuple):
    """One argument of a request in device memory, with the dimensions that model and request give."""

    role: ArgumentRole
    buffer: DeviceBuffer
    dimensions: Dimensions


class BufferUses:
    """All arguments of one request that lie in device memory."""

    def __init__(self, inputs: Sequence[BufferUse], outputs: Sequence[BufferUse]) -> None:
        """Raises INVALID_ARGUMENT if a buffer lacks a role, or is an output and another argument as well."""
        for use in (*inputs, *outputs):
            use.buffer.require_role(use.role)
        written = [use.buffer for use in outputs]
        for use in outputs:
            if written.count(use.buffer) > 1 or any(other.buffer is use.buffer for other in inputs):
                invalid_argument(f"{use.role} is a buffer that another argument of the request uses too")
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._roles = tuple((use.buffer, use.role) for use in (*inputs, *outputs))
        self.buffers = [buffer for buffer, _ in self._roles]
        """The buffers that the arguments lie in."""
        self._read = self.buffers[: len(inputs)]
        self._written = tuple((use.buffer, use.role.index) for use in outputs)

    @property
    def empty(self) -> list[int]:
        """The inputs whose buffers hold an empty value."""
        return [use.role.index for use in self._inputs if 0 in use.buffer.contents.dimensions]

    @property
    def changes(self) -> int:
        """Differs from what it was if a buffer has changed since, in more than its bytes."""
        return self.buffers[0].changes

    @property
    def growing(self) -> list[int]:
        """The outputs whose buffers grow."""
        return [use.role.index for use in self._outputs if use.buffer.largest_dimensions]

    @property
    def versions(self) -> tuple[int, ...]:
        """The buffers' versions: they change whenever the arguments have to be bound again."""
        return tuple([buffer.version for buffer in self.buffers])

    @property
    def storages(self) -> list[Bytes]:
        """The memory of the buffers now."""
        return [buffer.storage for buffer in self.buffers]

    def dimensions_in(self, storages: Sequence[Bytes]) -> list[tuple[int, Dimensions]] | None:
        """The dimensions of inputs by their positions; None if the buffers have other memory than these by now.

        Raises GENERAL_FAILURE if an input is uninitialised, INVALID_ARGUMENT if it has other dimensions than it may.
        """
        found = []
        for use, storage in zip(self._inputs, storages, strict=False):
            held = use.buffer.dimensions_in(storage, use.dimensions, use.role)
            if held is None:
                return None
            found.append((use.role.index, held))
        outputs = zip(self._outputs, storages[len(self._inputs) :], strict=True)
        return found if all(use.buffer.storage is storage for use, storage in outputs) else None

    def require_alive(self) -> None:
        """Check that no buffer was released: no execution may begin then. Raises INVALID_ARGUMENT."""
        if True in [buffer.is_released for buffer in self.buffers]:
            for buffer, role in self._roles:
                buffer.require_alive(role)

    def require_written(self) -> None:
        """Check that inputs hold values, or will: a run without them is none. Raises GENERAL_FAILURE."""
        if False in [buffer.is_initialised for buffer in self._read]:
            for use in self._inputs:
                use.buffer.require_written(use.role)

    def require_launchable(self) -> None:
        """Check what is known before the fences have signalled. Raises HalError.

        It changes no state: executions that come before this one may still write the same buffers.
        """
        self.require_alive()
        for use in self._inputs:
            use.buffer.require_readable(use.dimensions, use.role)
        for use in self._outputs:
            use.buffer.require_writable(use.dimensions, use.role)

    def require_ready(self) -> None:
        """Check what may have changed since the arguments were bound. Raises HalError."""
        if False in [buffer.is_initialised for buffer in self._read]:
            for buffer, role in self._roles:
                buffer.require_ready(role)

    def fill(self, inputs: list[Argument], outputs: list[Argument], given: Sequence[int] = ()) -> None:
        """Put the buffers' memory into the arguments of a request; an input that is ``given`` needs no value.

        Raises HalError.
        """
        for use in self._inputs:
            if use.role.index in given:
                continue
            inputs[use.role.index] = use.buffer.input(use.dimensions, use.role)
        for use in self._outputs:
            outputs[use.role.index] = use.buffer.output(use.dimensions, use.role)

    def make_room(self, dimensions: Sequence[Dimensions]) -> bool:
        """Grow the buffers of outputs of these dimensions, and return whether any had to grow."""
        grown = [use.buffer.make_room(dimensions[use.role.index]) for use in self._outputs]
        return any(grown)

    def begin(self) -> None:
        """Note that an execution was launched."""
        for use in self._outputs:
            use.buffer.begin_write()

    def end(self) -> None:
        """Note that a launched execution has ended."""
        for use in self._outputs:
            use.buffer.end_write()

    def wrote(self, outputs: Sequence[Dimensions]) -> None:
        """Note that an execution has written its outputs. Raises GENERAL_FAILURE if a buffer cannot have its shape."""
        for buffer, index in self._written:
            dimensions = outputs[index]
            if dimensions != buffer.dimensions or not buffer.is_initialised:
                buffer.wrote(dimensions)

    def spoil(self) -> None:
        """Note that an execution has failed: its outputs are uninitialised."""
        for use in self._outputs:
            use.buffer.spoil()

    def output(self, index: int) -> DeviceBuffer | None:
        """The device memory that output ``index`` lies in; None if it lies elsewhere."""
        return next((use.buffer for use in self._outputs if use.role.index == index), None)


def empty_argument(dimensions: Dimensions) -> Argument:
    """The placeholder for an argument in device memory until a run binds it."""
    return Argument(np.empty(0, np.uint8), dimensions)


def sized_argument(
    argument: Argument, dimensions: Dimensions, operand: Operand, sizes: Mapping[int, int], position: int
) -> Argument:
    """An input with the dimensions of one run, in the memory that it is bound to. Raises INVALID_ARGUMENT.

    ``sizes`` are the bytes of an element of the types of extensions.
    """
    data, stated = argument.data, operand.dimensions
    if data is None:
        invalid_argument(f"lengths of input {position}, which has no value")
    if not within(stated, dimensions):
        invalid_argument(f"input {position} has lengths {list(dimensions)}, the model says {describe(stated)}")
    size = size_in_bytes(operand.type, dimensions, sizes)
    if size > len(data):
        invalid_argument(f"input {position} has lengths {list(dimensions)}, {size} bytes, and its memory {len(data)}")
    return Argument(data[:size], dimensions)


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """The arguments of a request with their memory."""

    inputs: list[Argument]

    outputs: list[Argument]

    staged_inputs: Sequence[Staged]
    """The inputs that are copied in before a run."""

    staged_outputs: Sequence[Staged]
    """The outputs that are copied out after a run."""

    uses: BufferUses | None
    """The arguments in device memory, if any."""

    guarded: Sequence[GuardedRegion]
    """The mapped files that may shrink, in which arguments lie."""

    pools: Sequence[UsedPool]
    """Those that arguments lie in."""
