"""Memory that was made for certain inputs and outputs of loaded models."""

from __future__ import annotations

from typing import Protocol

from nnhal.types import Memory, RequestMemoryPool
from nnhal.types.layout import Dimensions


class BoundMemory(Protocol):
    """Memory that a binding names: a device's own buffer, or shared host memory. Safe to use from several threads."""

    @property
    def device(self) -> str:
        """The device whose buffer it is; empty for the host's memory."""
        ...

    @property
    def pool(self) -> RequestMemoryPool:
        """The buffer's token or the host's memory, for a request of that device.

        Raises DeadObjectError if the buffer is gone and was not allocated again since: a new process may use its token
        for other memory.
        """
        ...

    @property
    def dimensions(self) -> Dimensions:
        """The dimensions of its values; 0 for an unknown extent."""
        ...

    def require_alive(self) -> None:
        """Raise DeadObjectError if the device's process is gone, and the memory with it.

        If the device came back, the memory is allocated again instead, and is uninitialised.
        """
        ...

    def to_host(self) -> Memory:
        """Its values in host memory, for a run on another device: the memory itself, or a copy of the buffer.

        Raises HalError, or TransportError if the device is gone.
        """
        ...

    def from_host(self, memory: Memory, dimensions: Dimensions) -> None:
        """Take values that another device wrote. Raises as ``to_host`` does."""
        ...

    def written(self, dimensions: Dimensions, succeeded: bool) -> None:
        """Note that a run has written it: the dimensions of its values, or that it failed and holds none."""
        ...

    def require_readable(self, operand_dimensions: Dimensions) -> None:
        """Raise HalError if it cannot be an input: GENERAL_FAILURE if it is uninitialised, INVALID_ARGUMENT if its
        values have other dimensions. Raises as ``require_alive`` does, too.
        """
        ...
