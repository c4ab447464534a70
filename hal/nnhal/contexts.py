"""Closing of several things at the end of a ``with`` or an ``async with``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """A context that ends with ``close``."""

    @abstractmethod
    def close(self) -> None:
        """Release it. Harmless when repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClosing(ABC):
    """A context of asyncio that ends with ``close``."""

    @abstractmethod
    async def close(self) -> None:
        """Release it. Harmless when repeated."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
