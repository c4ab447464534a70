"""An owned file descriptor."""

from __future__ import annotations

import contextlib
import os


class Descriptor:
    """A file descriptor that is closed with the last reference to this object, or by ``close``.

    Compared and hashed by identity, since two descriptors of one file must both be closed.
    """

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the number. Raises ValueError once closed."""
        if self._fd < 0:
            raise ValueError("the descriptor is closed")
        return self._fd

    def duplicate(self) -> Descriptor:
        """Return another descriptor of the same open file."""
        return Descriptor(os.dup(self.fileno()))

    def read_into(self, memory: memoryview, start: int) -> int:
        """Fill memory with the bytes of the file from ``start`` on, and return how many there are: fewer if it ends.

        Raises OSError.
        """
        done = 0
        while done < len(memory):
            count = os.preadv(self.fileno(), [memory[done:]], start + done)
            if not count:
                break
            done += count
        return done

    def detach(self) -> int:
        """Hand ownership to the caller and return the number."""
        fd, self._fd = self.fileno(), -1
        return fd

    def close(self) -> None:
        """Close it. Further calls have no effect."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()

    def __repr__(self) -> str:
        return f"Descriptor({self._fd})"
