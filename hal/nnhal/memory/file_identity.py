"""File that memory belongs to, and its seals: for those who look at a process's memory from outside."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_OPEN_FILES = Path("/proc/self/fd")
_SEALS = {
    fcntl.F_SEAL_SEAL: "seal",
    fcntl.F_SEAL_SHRINK: "shrink",
    fcntl.F_SEAL_GROW: "grow",
    fcntl.F_SEAL_WRITE: "write",
    0x10: "future write",  # F_SEAL_FUTURE_WRITE of linux/fcntl.h
}


class FileIdentity(NamedTuple):
    """Tells a file from all others of the host, for as long as it exists."""

    device: int
    inode: int

    def __str__(self) -> str:
        return f"{self.device}:{self.inode}"


def identity_of(fd: int) -> FileIdentity:
    """Return which file a descriptor is open on, by its number. Raises OSError."""
    found = os.fstat(fd)
    return FileIdentity(found.st_dev, found.st_ino)


def is_regular(fd: int) -> bool:
    """Return whether a descriptor, by its number, is open on a regular file or a memfd. Raises OSError."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


def seals_in(fd: int) -> tuple[str, ...]:
    """Return the names of the seals of a file, by its descriptor's number; none if it cannot have any."""
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        return ()
    return tuple(name for bit, name in _SEALS.items() if seals & bit)


def open_seals_of(files: Collection[FileIdentity]) -> dict[FileIdentity, tuple[str, ...]]:
    """Return the names of the seals of files that this process holds open; files without any are left out."""
    wanted, found = set(files), dict[FileIdentity, tuple[str, ...]]()
    for number in [int(path.name) for path in _OPEN_FILES.iterdir()] if wanted else ():
        with contextlib.suppress(OSError):  # it is closed by now, or cannot have seals
            identity = identity_of(number)
            if identity in wanted and identity not in found:
                seals = seals_in(number)
                if seals and identity_of(number) == identity:  # the number has not come to mean another file meanwhile
                    found[identity] = seals
    return found
