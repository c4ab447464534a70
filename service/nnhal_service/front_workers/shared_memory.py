"""Clients' shared memory as a front worker sees it: registered with the framework, read and written here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nnhal.types import MappableFile
from nnhal_service.front_workers.peer import Peer
from nnhal_service.serving.requests.client_memory import ClientRegion, Place
from nnhal_service.v2.backend import SharedMemory, SharedRegion


class RegionLender(Protocol):
    """Lender of clients' shared memory in the framework's process."""

    def lend(self, name: str, offset: int, byte_size: int, owner: str) -> MappableFile:
        """A part of a region. Raises as ``SharedMemory.read``."""


class LentRegions:
    """The RegionLender of the framework's shared memory."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory

    def lend(self, name: str, offset: int, byte_size: int, owner: str) -> MappableFile:
        return self._memory.place(name, offset, byte_size, owner).as_memory()


class RemoteSharedMemory:
    """The SharedMemory of a front worker. Each use of a region asks the framework, which knows what is registered."""

    def __init__(self, framework: Peer) -> None:
        self._framework = framework

    def register(self, region: SharedRegion, owner: str) -> None:
        self._framework.ask(SharedMemory.register, region, owner)

    def unregister(self, name: str, owner: str) -> None:
        self._framework.ask(SharedMemory.unregister, name, owner)

    def status(self, name: str, owner: str) -> Sequence[SharedRegion]:
        return self._framework.ask(SharedMemory.status, name, owner)

    def read(self, name: str, offset: int, byte_size: int, owner: str) -> memoryview:
        return self.place(name, offset, byte_size, owner).region.read(0, byte_size)

    def write(self, name: str, offset: int, contents: bytes | bytearray | memoryview, owner: str) -> None:
        view = memoryview(contents).cast("B")
        self.place(name, offset, len(view), owner).region.write(0, view)

    def is_prompt(self, owner: str) -> bool:
        return False

    def place(self, name: str, offset: int, byte_size: int, owner: str) -> Place:
        lent = self._framework.ask(RegionLender.lend, name, offset, byte_size, owner)
        return Place(ClientRegion(name, lent.descriptor, lent.offset, byte_size), 0, byte_size)
