"""The tensors of one load generator in a file of /dev/shm: all inputs, then all outputs."""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generators import BenchError
from benchmarks.serve.inputs import ServedSignature

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


_ALIGNMENT = 64
Raw = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class SharedRange:
    """A tensor's place in the region."""

    offset: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class SharedTensors:
    """A file with the inputs written into it, and room for the outputs."""

    file: SharedFile
    parts: Mapping[str, SharedRange]


def shared_tensors(inputs: Mapping[str, Raw], signature: ServedSignature, output_bytes: int) -> SharedTensors:
    """Lay them out in a new file. Raises OSError or BenchError."""
    sizes = {name: len(raw) for name, raw in inputs.items()}
    sizes |= {tensor.name: tensor.byte_size(output_bytes) for tensor in signature.outputs}
    parts, end = {}, 0
    for name, size in sizes.items():
        parts[name] = SharedRange(end, size)
        end += -(-max(1, size) // _ALIGNMENT) * _ALIGNMENT
    file = SharedFile(end)
    for name, raw in inputs.items():
        file.write(parts[name].offset, raw)
    return SharedTensors(file, parts)
