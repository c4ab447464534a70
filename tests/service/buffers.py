"""A fake device buffer that records what the framework does with it."""

from __future__ import annotations

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import ErrorStatus, Memory
from nnhal.types.layout import Dimensions

TOKEN = 12345


class Buffer:
    """A device buffer. Its first ``unreadable`` copies fail. ``notes`` has each call of ``written``."""

    def __init__(self, device: str, values: Array) -> None:
        self.device = device
        self.pool: Memory | int = TOKEN
        self.dimensions: Dimensions = values.shape
        self.unreadable = 0
        self.is_lent = False
        self.notes: list[tuple[Dimensions, bool]] = []
        self._bytes = values.nbytes
        self._content = create_ashmem(values.nbytes)
        open_pool(self._content, writable=True).write(0, values.reshape(-1).view("u1"))

    def values(self, element: type) -> Array:
        return open_pool(self._content, writable=False).read(0, self._bytes).view(element)

    def to_host(self) -> tuple[Memory, Dimensions]:
        if self.unreadable:
            self.unreadable -= 1
            raise HalError(ErrorStatus.GENERAL_FAILURE, "the buffer cannot be read")
        return self._content, self.dimensions

    def from_host(self, memory: Memory, dimensions: Dimensions) -> None:
        values = open_pool(memory, writable=False).read(0, self._bytes)
        open_pool(self._content, writable=True).write(0, values)
        self.dimensions = dimensions

    def written(self, dimensions: Dimensions, succeeded: bool) -> None:
        self.notes.append((dimensions, succeeded))

    def require_readable(self, operand_dimensions: Dimensions) -> None:
        """Accept any dimensions."""

    def lend(self) -> None:
        """Do nothing: what it holds is known here."""

    def require_alive(self) -> None:
        """Return, since the buffer is always alive."""
