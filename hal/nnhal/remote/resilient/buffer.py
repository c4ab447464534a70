"""IBuffer that outlives its process, though what is in it does not."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.remote.buffer import RemoteBuffer
from nnhal.remote.resilient.renewable import Renewable, alive
from nnhal.types import Memory


class ResilientBuffer:
    """A buffer that is allocated again, uninitialised, where its device has died. Raises as RemoteBuffer."""

    def __init__(self, buffer: Renewable[RemoteBuffer]) -> None:
        self._buffer = buffer

    @property
    def token(self) -> int:
        """What requests call it at this moment."""
        return self._buffer.use(alive).token

    def copy_from(self, source: Memory, dimensions: Sequence[int] = ()) -> None:
        """copyFrom: fill it."""
        self._buffer.use(lambda buffer: buffer.copy_from(source, dimensions))

    def copy_to(self, destination: Memory) -> None:
        """copyTo: copy it out. A buffer that had to be allocated again holds nothing: GENERAL_FAILURE."""
        self._buffer.use(lambda buffer: buffer.copy_to(destination))

    def release(self) -> None:
        """Give it up."""
        self._buffer.last.release()
