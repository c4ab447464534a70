"""Memory for certain inputs and outputs of loaded models, for asyncio."""

from __future__ import annotations

import asyncio

from nnhal.arrays import Array
from nnhal.contexts import AsyncClosing
from nnhal.types import Memory
from nnhal.types.layout import Dimensions
from nnhal_client.memory import DomainMemory


class AsyncDomainMemory(AsyncClosing):
    """As ``DomainMemory``, for asyncio. Use as a context."""

    def __init__(self, blocking: DomainMemory) -> None:
        self._blocking = blocking
        self.handle = blocking.handle
        self.device = blocking.device
        self.host = blocking.host

    async def copy_from(self, source: Array | Memory | AsyncDomainMemory, dimensions: Dimensions = ()) -> None:
        """Copy all values from the source. Takes and raises what ``DomainMemory.copy_from`` does."""
        await asyncio.to_thread(self._blocking.copy_from, _blocking(source), dimensions)

    async def copy_to(self, destination: Array | Memory | AsyncDomainMemory) -> None:
        """Copy all values to a destination of exactly as many bytes. Raises as ``copy_from``."""
        await asyncio.to_thread(self._blocking.copy_to, _blocking(destination))

    async def close(self) -> None:
        """Release it; bindings that use it keep it. Harmless when repeated."""
        await asyncio.to_thread(self._blocking.close)


def _blocking(end: Array | Memory | AsyncDomainMemory) -> Array | Memory | DomainMemory:
    return end._blocking if isinstance(end, AsyncDomainMemory) else end
