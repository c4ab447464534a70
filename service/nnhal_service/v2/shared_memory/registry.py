"""The regions of all clients.

A region is a file that its client may shorten at any time. It is therefore never mapped: it is read and written as a
file, so that what is not there any more is an error for that client and for nobody else.
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
from nnhal_service.v2.shared_memory.owners import Owner, Owners

_DIRECTORY = Path("/dev/shm")
_RESERVED = "triton_python_backend_shm_region_"
"""What Triton keeps for itself."""
_MAX_NAME = 255
_FOR_OTHERS = stat.S_IROTH | stat.S_IWOTH


@dataclass(slots=True)
class _Registered:
    """A region in use or not; ``file`` tells the file from all others."""

    region: SharedRegion
    descriptor: Descriptor
    file: tuple[int, int]
    users: int = 0
    unregistered: bool = field(default=False)


class SystemSharedMemory:
    """See backend.SharedMemory: ``owner`` is gRPC's name of the peer. Names are each client's own.

    What a client has registered ends with it: with its process, or with its connection where the process is not of
    this host. A file that one client has registered is refused to others.
    """

    def __init__(self, max_regions: int = 1024, directory: Path = _DIRECTORY) -> None:
        """``max_regions`` is how many one client may have."""
        self._max_regions = max_regions
        self._directory = directory
        self._lock = threading.Lock()
        self._regions: dict[Owner, dict[str, _Registered]] = {}
        self._owners = Owners(self._drop)

    def register(self, region: SharedRegion, owner: str) -> None:
        """See backend.SharedMemory."""
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
        """See backend.SharedMemory. A name that is not known is no error, as in Triton."""
        client = self._owners.of(owner)
        with self._lock:
            mine = self._regions.get(client, {})
            for found in [mine.pop(name)] if name in mine else [] if name else list(mine.values()):
                _retire(found)
            if not name:
                mine.clear()

    def status(self, name: str, owner: str) -> Sequence[SharedRegion]:
        """See backend.SharedMemory."""
        client = self._owners.of(owner)
        with self._lock:
            mine = self._regions.get(client, {})
            if name and name not in mine:
                raise _unknown(name)
            return [mine[name].region] if name else [found.region for found in mine.values()]

    def read(self, name: str, offset: int, byte_size: int, owner: str) -> memoryview:
        """See backend.SharedMemory."""
        with self._use(name, offset, byte_size, owner) as found:
            contents = np.empty(byte_size, np.uint8).data  # not cleared first: all of it is read over
            start, done = found.region.offset + offset, 0
            while done < byte_size:
                count = os.preadv(found.descriptor.fileno(), [contents[done:]], start + done)
                if count == 0:
                    raise _shortened(name, byte_size, done)
                done += count
            return contents

    def write(self, name: str, offset: int, contents: bytes | bytearray | memoryview, owner: str) -> None:
        """See backend.SharedMemory."""
        view = memoryview(contents).cast("B")
        with self._use(name, offset, len(view), owner) as found:
            start = found.region.offset + offset
            if os.fstat(found.descriptor.fileno()).st_size < start + len(view):
                raise _shortened(name, len(view), 0)  # writing would make the client's file longer
            done = 0
            while done < len(view):
                done += os.pwrite(found.descriptor.fileno(), view[done:], start + done)

    def close(self) -> None:
        """Forget all regions."""
        self._owners.close()
        for owner in list(self._regions):
            self._drop(owner)

    def _open(self, key: str) -> Descriptor:
        """A file by its key, which may have one slash in front. Raises INTERNAL, as Triton."""
        name = key.removeprefix("/")
        usable = 0 < len(name) <= _MAX_NAME and "/" not in name and "\0" not in name and name not in (".", "..")
        if usable and not name.startswith(_RESERVED):
            try:
                flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                return Descriptor(os.open(self._directory / name, flags))
            except (OSError, UnicodeError):
                pass
        raise _cannot_open(key)

    def _add(self, client: Owner, registered: _Registered) -> None:
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
        """A region, open until the end of the block even where it is unregistered meanwhile."""
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

    def _drop(self, owner: Owner) -> None:
        with self._lock:
            for found in self._regions.pop(owner, {}).values():
                _retire(found)


def _retire(found: _Registered) -> None:
    """Close a region's file, when the last request that uses it has ended."""
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


def _require_file(descriptor: Descriptor, key: str, client: Owner) -> tuple[int, tuple[int, int]]:
    """The bytes of a regular file that the client's user may read and write, and what tells it from all others."""
    found = os.fstat(descriptor.fileno())
    allowed = client.uid in (-1, 0, found.st_uid) or found.st_mode & _FOR_OTHERS == _FOR_OTHERS
    if not (stat.S_ISREG(found.st_mode) and allowed):
        descriptor.close()
        raise _cannot_open(key)
    return found.st_size, (found.st_dev, found.st_ino)


def _cannot_open(key: str) -> ServingError:
    """One text for all that may be wrong, so that nobody learns which files there are."""
    hint = "it must be in the server's own /dev/shm; containers have one each unless they share it"
    return ServingError(ErrorKind.INTERNAL, f"Unable to open shared memory region: '{key}' ({hint})")


def _unknown(name: str) -> ServingError:
    return ServingError(ErrorKind.NOT_FOUND, f"Unable to find system shared memory region: '{name}'")


def _shortened(name: str, wanted: int, got: int) -> ServingError:
    return ServingError(
        ErrorKind.INVALID_ARGUMENT,
        f"shared memory region '{name}' is shorter than when it was registered: got {got} bytes, expected {wanted}",
    )
