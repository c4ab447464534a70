"""IFencedExecutionCallback."""

from __future__ import annotations

from typing import ClassVar

from nnhal.errors import general_failure
from nnhal.types import FencedExecutionInfo


class FencedExecutionCallback:
    """How one launched execution ended, for its client."""

    kind: ClassVar[str] = "callback"

    def __init__(self) -> None:
        self._info: FencedExecutionInfo | None = None

    def info(self) -> FencedExecutionInfo:
        """IFencedExecutionCallback.getExecutionInfo. Raises GENERAL_FAILURE until the execution has ended."""
        info = self._info
        if info is None:
            general_failure("the fenced execution has not ended")
        return info

    def end(self, info: FencedExecutionInfo) -> None:
        """Record how the execution ended."""
        self._info = info
