"""The regions of all clients.

A client may shorten the file of a region at any time. A region is therefore never mapped, but read and written as a
file: missing bytes are then an error for that client, and not a signal for the whole process.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nnhal.descriptor import Descriptor
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.backend import SharedRegion
from nnhal_service.v2.shared_memory.owners import Owners, RegionOwner

_DIRECTORY = Path("/dev/shm")
_RESERVED = "triton_python_backend_shm_region_"
"""The prefix of names that Triton reserves for itself."""
_MAX_NAME = 255
_FOR_OTHERS = stat.S_IROTH | stat.S_IWOTH


@dataclass(slots=True)
class _Registered:
    """A region and its open file."""

    region: SharedRegion
    descriptor: Descriptor
    file: tuple[int, int]
    """The device and inode of the file."""
    users: int = 0
    """The requests that use it now."""
    unregistered: bool = field(default=False)


class SystemSharedMemory:
    """The SharedMemory of files in /dev/shm. ``owner`` is gRPC's name of the peer; each client has names of its own.

    A client's regions are forgotten when its process ends, or when its connection ends if the process is not on this
    host. A file that one client has registered is refused to other clients.
    """

    def __init__(self, max_regions: int = 1024, directory: Path = _DIRECTORY) -> None:
        """``max_regions`` is the number of regions that one client may have."""
        self._max_regions = max_regions
        self._directory = directory
        self._lock = threading.Lock()
        self._regions: dict[RegionOwner, dict[str, _Registered]] = {}
        self._owners = Owners(self._drop)

    def register(self, region: SharedRegion, owner: str) -> None:
        client = self._owners.of(owner)
        _require_name(region.name)
        descriptor = self._open(region.key)
        size, file = _require_file(descriptor, region.key, client)
        if region.byte_size == 0 or region.offset + region.byte_size > size:
            descriptor.close()
            raise ServingError(
                ErrorKind.INVALID_ARGUMENT,
                f"failed to register shared memory region '{region.name}': Invalid offset + byte size: got "
                f"{region.offset} + {region.byte_size}, expected at least 1 byte within {size}",
            )
        try:
            self._add(client, _Registered(region, descriptor, file))
        except ServingError:
            descriptor.close()
            raise
        self._owners.watch(client)

    def unregister(self, name: str, owner: str) -> None:
        """Forget a region, or all of the owner's if the name is empty. An unknown name is no error, as in Triton."""
        client = self._owners.of(owner)
        with self._lock:
            mine = self._regions.get(client, {})
            for found in [mine.pop(name)] if name in mine else [] if name else list(mine.values()):
                _retire(found)
            if not name:
                mine.clear()

    def status(self, name: str, owner: str) -> Sequence[SharedRegion]:
        client = self._owners.of(owner)
        with self._lock:
            mine = self._regions.get(client, {})
            if name and name not in mine:
                raise _unknown(name)
            return [mine[name].region] if name else [found.region for found in mine.values()]

    def read(self, name: str, offset: int, byte_size: int, owner: str) -> memoryview:
        with self._use(name, offset, byte_size, owner) as found:
            contents = np.empty(byte_size, np.uint8).data  # not zeroed: every byte is read
            start, done = found.region.offset + offset, 0
            while done < byte_size:
                count = os.preadv(found.descriptor.fileno(), [contents[done:]], start + done)
                if count == 0:
                    raise _shortened(name, byte_size, done)
                done += count
            return contents

    def write(self, name: str, offset: int, contents: bytes | bytearray | memoryview, owner: str) -> None:
        view = memoryview(contents).cast("B")
        with self._use(name, offset, len(view), owner) as found:
            start = found.region.offset + offset
            if os.fstat(found.descriptor.fileno()).st_size < start + len(view):
                raise _shortened(name, len(view), 0)  # writing would lengthen the client's file
            done = 0
            while done < len(view):
                done += os.pwrite(found.descriptor.fileno(), view[done:], start + done)

    def close(self) -> None:
        """Forget all regions."""
        self._owners.close()
        for owner in list(self._regions):
            self._drop(owner)

    def _open(self, key: str) -> Descriptor:
        """Open a file by its key, which may begin with one slash. Raises INTERNAL, as Triton, if that fails."""
        name = key.removeprefix("/")
        usable = 0 < len(name) <= _MAX_NAME and "/" not in name and "\0" not in name and name not in (".", "..")
        if usable and not name.startswith(_RESERVED):
            try:
                flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                return Descriptor(os.open(self._directory / name, flags))
            except (OSError, UnicodeError):
                pass
        raise _cannot_open(key)

    def _add(self, client: RegionOwner, registered: _Registered) -> None:
        region = registered.region
        with self._lock:
            for owner, theirs in self._regions.items():
                if owner != client and any(other.file == registered.file for other in theirs.values()):
                    raise _cannot_open(region.key)
            mine = self._regions.setdefault(client, {})
            if region.name in mine:
                message = f"shared memory region '{region.name}' already in manager"
                raise ServingError(ErrorKind.ALREADY_EXISTS, message)
            if len(mine) >= self._max_regions:
                message = f"{len(mine)} shared memory regions are registered, expected at most {self._max_regions}"
                raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, message)
            mine[region.name] = registered

    @contextmanager
    def _use(self, name: str, offset: int, byte_size: int, owner: str) -> Iterator[_Registered]:
        """A region, whose file stays open until the end of the block even if the region is unregistered."""
        client = self._owners.of(owner)
        with self._lock:
            found = self._regions.get(client, {}).get(name)
            if found is None:
                raise _unknown(name)
            if offset + byte_size > found.region.byte_size:
                raise ServingError(
                    ErrorKind.INVALID_ARGUMENT,
                    f"Invalid offset + byte size for shared memory region: '{name}': got {offset} + {byte_size}, "
                    f"expected at most {found.region.byte_size}",
                )
            found.users += 1
        try:
            yield found
        finally:
            with self._lock:
                found.users -= 1
                if found.unregistered and not found.users:
                    found.descriptor.close()

    def _drop(self, owner: RegionOwner) -> None:
        with self._lock:
            for found in self._regions.pop(owner, {}).values():
                _retire(found)


def _retire(found: _Registered) -> None:
    """Close a region's file once the last request that uses it has ended."""
    found.unregistered = True
    if not found.users:
        found.descriptor.close()


def _require_name(name: str) -> None:
    if not name or len(name) > _MAX_NAME or name.startswith(_RESERVED):
        raise ServingError(
            ErrorKind.INVALID_ARGUMENT,
            f"shared memory region name of {len(name)} characters, expected 1 to {_MAX_NAME} that do not begin with "
            f"'{_RESERVED}'",
        )


def _require_file(descriptor: Descriptor, key: str, client: RegionOwner) -> tuple[int, tuple[int, int]]:
    """The size of a file, and its device and inode.

    Raises INTERNAL unless it is a regular file that the client's user may read and write.
    """
    found = os.fstat(descriptor.fileno())
    allowed = client.uid in (-1, 0, found.st_uid) or found.st_mode & _FOR_OTHERS == _FOR_OTHERS
    if not (stat.S_ISREG(found.st_mode) and allowed):
        descriptor.close()
        raise _cannot_open(key)
    return found.st_size, (found.st_dev, found.st_ino)


def _cannot_open(key: str) -> ServingError:
    """One message for all causes, so that no client learns which files exist."""
    hint = "it must be in the server's own /dev/shm; containers have one each unless they share it"
    return ServingError(ErrorKind.INTERNAL, f"Unable to open shared memory region: '{key}' ({hint})")


def _unknown(name: str) -> ServingError:
    return ServingError(ErrorKind.NOT_FOUND, f"Unable to find system shared memory region: '{name}'")


def _shortened(name: str, wanted: int, got: int) -> ServingError:
    return ServingError(
        ErrorKind.INVALID_ARGUMENT,
        f"shared memory region '{name}' is shorter than when it was registered: got {got} bytes, expected {wanted}",
    )
