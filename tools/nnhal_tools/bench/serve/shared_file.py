"""A file in /dev/shm for the tensors of one load generator."""

from __future__ import annotations

import mmap
import os
import secrets
from pathlib import Path

from nnhal_tools.bench.serve.target import BenchError

_DIRECTORY = Path("/dev/shm")
_PREFIX = "nnhal-bench-"


class SharedFile:
    """Mapped memory under a name of its own.

    A server needs the name only to register the file. Unlink it afterwards, so that nothing is left however this
    process ends.
    """

    def __init__(self, size: int) -> None:
        """Raises OSError, or BenchError if /dev/shm has no room for it."""
        self.key = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        self.size = size
        descriptor = os.open(_DIRECTORY / self.key, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            self.memory = mmap.mmap(descriptor, size)
        except OSError as error:
            self.unlink()
            raise BenchError(f"{_DIRECTORY} has no room for {size} bytes: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def write(self, offset: int, contents: bytes | bytearray | memoryview) -> None:
        """Write bytes at an offset."""
        self.memory[offset : offset + len(contents)] = bytes(contents)

    def unlink(self) -> None:
        """Remove the name; the memory stays. Further calls do nothing."""
        (_DIRECTORY / self.key).unlink(missing_ok=True)
