"""Folders where the libraries in C++ keep what they have compiled, so that the core of the SDK is compiled once for
all.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OBJECTS = Path(__file__).parents[2] / ".sdk" / "objects"


@contextmanager
def compiled_objects() -> Iterator[Path]:
    """Return the folder of the objects, in which nobody else compiles until the context ends."""
    _OBJECTS.mkdir(parents=True, exist_ok=True)
    with (_OBJECTS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _OBJECTS
