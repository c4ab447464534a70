"""Whether a shared object is complete: loading a truncated one kills the process, since the linker does not check."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from nnhal.given_files import open_given_file

_IDENT = b"\x7fELF\x02" + (b"\x01" if sys.byteorder == "little" else b"\x02")
_HEADER = struct.Struct("=16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("=IIQQQQQQ")
_LOADED = 1  # PT_LOAD


def missing_bytes(path: Path) -> int:
    """How many bytes of a 64-bit ELF file's segments lie past its end.

    0 if it is no ELF file, or its header is incomplete: the linker refuses those itself. Raises as ``open_given_file``.
    """
    with open_given_file(path, "a shared object") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_IDENT):
            return 0
        *_, table, _, _, _, entry_size, entries, _, _, _ = _HEADER.unpack(header)
        file.seek(table)
        segments = file.read(entry_size * entries)
        size = file.seek(0, 2)
    if entry_size != _SEGMENT.size or len(segments) < entry_size * entries:
        return 0
    ends = [
        offset + length for kind, _, offset, _, _, length, _, _ in _SEGMENT.iter_unpack(segments) if kind == _LOADED
    ]
    return max(0, max(ends, default=0) - size)
