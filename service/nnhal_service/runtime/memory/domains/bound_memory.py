"""Memory that was made for certain inputs and outputs of loaded models."""

from __future__ import annotations

from typing import Protocol

from nnhal.types import Memory, RequestMemoryPool
from nnhal.types.layout import Dimensions


class BoundMemory(Protocol):
    """A device's own buffer, or shared memory of the host. Safe to use from several threads."""

    @property
    def device(self) -> str:
        """The device whose buffer it is; empty for the host's memory."""
        ...

    @property
    def pool(self) -> RequestMemoryPool:
        """What a request of that device refers to: the buffer's token, or the host's memory. Raises as
        ``require_alive``.
        """
        ...

    @property
    def dimensions(self) -> Dimensions:
        """As far as known by now."""
        ...

    def require_alive(self) -> None:
        """Raise DeadObjectError where the device's process is gone, and the memory with it.

        It never comes back; its token may be another memory's by then.
        """
        ...

    def to_host(self) -> Memory:
        """Its values in host memory, for a run on another device: the memory itself, or a copy of the buffer.

        Raises HalError, or TransportError where the device is gone.
        """
        ...

    def from_host(self, memory: Memory, dimensions: Dimensions) -> None:
        """Take values that another device wrote. Raises as ``to_host``."""
        ...

    def written(self, dimensions: Dimensions, succeeded: bool) -> None:
        """Note that a run has written it: what it holds now, or that it holds nothing that is of use."""
        ...

    def require_readable(self, operand_dimensions: Dimensions) -> None:
        """Raises HalError where it cannot be an input: GENERAL_FAILURE where it holds no values, INVALID_ARGUMENT where
        these have other dimensions. Raises also as ``require_alive``.
        """
        ...
