"""The sockets that this process has open, including those of libraries that do not give them out."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")


def count_descriptors() -> int:
    return sum(1 for _ in _DESCRIPTORS.iterdir())


def own_sockets() -> Iterator[socket.socket]:
    """This process's sockets by the numbers of their descriptors, each as long as it is looked at."""
    for number in sorted(int(entry.name) for entry in _DESCRIPTORS.iterdir()):
        with suppress(OSError):  # closed meanwhile; what has its number now is looked at instead
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as end:  # its dup() would have gRPC's accept block
                    yield end
