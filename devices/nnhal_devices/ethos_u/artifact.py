"""Parts of a compiled network that a compilation cache keeps: its commands, and what they were made for.

The bytes are a magic, a digest of the accelerator with its memories, of the budget and of what the network takes of it,
the latter in bytes, and the command stream, which says itself which graph it is for.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict

from nnhal_cascade.hardware.memory import System
from nnhal_cascade.stream.binary import from_bytes, to_bytes
from nnhal_cascade.stream.commands import CommandStream

_MAGIC = b"nnhal ethos_u 1\0"
_HEADER = struct.Struct(f"<{len(_MAGIC)}s32sQ")


def write_artifact(stream: CommandStream, system: System, budget: int, working_bytes: int) -> bytes:
    """Return the bytes for commands that were made within ``budget`` bytes of a working memory and take fewer of it."""
    return _HEADER.pack(_MAGIC, _origin(system, budget, working_bytes), working_bytes) + to_bytes(stream)


def read_artifact(data: bytes, system: System, budget: int) -> tuple[CommandStream, int] | None:
    """Return the commands and the bytes that they take; None if they were made for something else, or are damaged."""
    if len(data) < _HEADER.size:
        return None
    magic, origin, working_bytes = _HEADER.unpack_from(data)
    if magic != _MAGIC or origin != _origin(system, budget, working_bytes):
        return None
    try:
        return from_bytes(data[_HEADER.size :]), working_bytes
    except ValueError:
        return None


def _origin(system: System, budget: int, working_bytes: int) -> bytes:
    # Sets are listed in another order by each process.
    made_for = json.dumps([asdict(system), budget, working_bytes], default=sorted)
    return hashlib.sha256(made_for.encode()).digest()
