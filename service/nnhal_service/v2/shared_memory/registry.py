"""The regions of all clients."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from nnhal.descriptor import Descriptor
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.loop import MOST_BYTES_IN_LOOP
from nnhal_service.serving.requests.client_memory import ClientRegion, Place
from nnhal_service.v2.backend import SharedRegion
from nnhal_service.v2.shared_memory.owners import Owners, RegionOwner

_DIRECTORY = Path("/dev/shm")
_RESERVED = "triton_python_backend_shm_region_"
"""The prefix of names that Triton reserves for itself."""
_MAX_NAME = 255
_FOR_OTHERS = stat.S_IROTH | stat.S_IWOTH


class _Registered(NamedTuple):
    """A region, as it was registered and with its open file."""

    region: SharedRegion
    memory: ClientRegion


class SystemSharedMemory:
    """The SharedMemory of files in /dev/shm. ``owner`` is gRPC's name of the peer; each client has names of its own.

    A client's regions are forgotten when its process ends, or when its connection ends if the process cannot be seen.
    A file that one client has registered is refused to other clients, and one that its user may not read and write.
    """

    def __init__(
        self,
        ports: Callable[[], Collection[int]],
        max_regions: int = 1024,
        directory: Path = _DIRECTORY,
        connections: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """``ports`` tells those that clients connect to; ``max_regions`` is how many one client may have.
        ``connections`` are those that servers hold, by gRPC's names of the peers.
        """
        self._max_regions = max_regions
        self._directory = directory
        self._lock = threading.Lock()
        self._regions: dict[RegionOwner, dict[str, _Registered]] = {}
        self._owners = Owners(self._drop, ports, connections)

    def register(self, region: SharedRegion, owner: str) -> None:
        client = self._owners.of(owner)
        _require_name(region.name)
        descriptor = self._open(region.key)
        size = _require_file(descriptor, region.key, client)
        if region.byte_size == 0 or region.offset + region.byte_size > size:
            descriptor.close()
            raise ServingError(
                ErrorKind.INVALID_ARGUMENT,
                f"failed to register shared memory region '{region.name}': Invalid offset + byte size: got "
                f"{region.offset} + {region.byte_size}, expected at least 1 byte within {size}",
            )
        try:
            memory = ClientRegion(region.name, descriptor, region.offset, region.byte_size)
            self._add(client, _Registered(region, memory))
        except ServingError:
            descriptor.close()
            raise
        self._owners.watch(client)

    def unregister(self, name: str, owner: str) -> None:
        """Forget a region, or all of the owner's if the name is empty. An unknown name is no error, as in Triton, and
        neither is an owner who cannot have a region.
        """
        try:
            client = self._owners.of(owner)
        except ServingError:
            return
        with self._lock:
            mine = self._regions.get(client, {})
            dropped = [mine.pop(each) for each in ([name] if name else list(mine)) if each in mine]
        for found in dropped:
            found.memory.retire()

    def status(self, name: str, owner: str) -> Sequence[SharedRegion]:
        client = self._owners.of(owner)
        with self._lock:
            mine = self._regions.get(client, {})
            if name and name not in mine:
                raise _unknown(name)
            return [mine[name].region] if name else [found.region for found in mine.values()]

    def read(self, name: str, offset: int, byte_size: int, owner: str) -> memoryview:
        return self.place(name, offset, byte_size, owner).region.read(offset, byte_size)

    def write(self, name: str, offset: int, contents: bytes | bytearray | memoryview, owner: str) -> None:
        view = memoryview(contents).cast("B")
        self.place(name, offset, len(view), owner).region.write(offset, view)

    def place(self, name: str, offset: int, byte_size: int, owner: str) -> Place:
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
        return Place(found.memory, offset, byte_size)

    def is_prompt(self, owner: str) -> bool:
        client = self._owners.known(owner)
        if client is None:
            return False
        with self._lock:
            mine = self._regions.get(client, {})
            return all(found.region.byte_size <= MOST_BYTES_IN_LOOP for found in mine.values())

    def close(self) -> None:
        self._owners.close()
        for owner in list(self._regions):
            self._drop(owner)

    def _open(self, key: str) -> Descriptor:
        """Open a file by its key, which may begin with one slash. Raises INVALID_ARGUMENT if that fails."""
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
                if owner != client and any(other.memory.file == registered.memory.file for other in theirs.values()):
                    raise _cannot_open(region.key)
            mine = self._regions.setdefault(client, {})
            if region.name in mine:
                message = f"shared memory region '{region.name}' already in manager"
                raise ServingError(ErrorKind.ALREADY_EXISTS, message)
            if len(mine) >= self._max_regions:
                message = f"{len(mine)} shared memory regions are registered, expected at most {self._max_regions}"
                raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, message)
            mine[region.name] = registered

    def _drop(self, owner: RegionOwner) -> None:
        with self._lock:
            mine = self._regions.pop(owner, {})
            dropped = list(mine.values())
            mine.clear()  # an error that is still referred to may refer to it
        for found in dropped:
            found.memory.retire()


def _require_name(name: str) -> None:
    if not name or len(name) > _MAX_NAME or name.startswith(_RESERVED):
        raise ServingError(
            ErrorKind.INVALID_ARGUMENT,
            f"shared memory region name of {len(name)} characters, expected 1 to {_MAX_NAME} that do not begin with "
            f"'{_RESERVED}'",
        )


def _require_file(descriptor: Descriptor, key: str, client: RegionOwner) -> int:
    """The size of a file. Raises INVALID_ARGUMENT unless it is regular, and the client's user may read and write it."""
    found = os.fstat(descriptor.fileno())
    allowed = client.uid in (0, found.st_uid) or found.st_mode & _FOR_OTHERS == _FOR_OTHERS
    if not (stat.S_ISREG(found.st_mode) and allowed):
        descriptor.close()
        raise _cannot_open(key)
    return found.st_size


def _cannot_open(key: str) -> ServingError:
    """One message for all causes, so that no client learns which files exist."""
    hint = "it must be in the server's own /dev/shm; containers have one each unless they share it"
    return ServingError(ErrorKind.INVALID_ARGUMENT, f"Unable to open shared memory region: '{key}' ({hint})")


def _unknown(name: str) -> ServingError:
    return ServingError(ErrorKind.NOT_FOUND, f"Unable to find system shared memory region: '{name}'")
