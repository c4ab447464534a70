"""IFencedExecutionCallback: how a launched execution ended."""

from __future__ import annotations

from nnhal.errors import general_failure
from nnhal.types import FencedExecutionInfo


class FencedExecution:
    """One launched execution, as its client sees it."""

    def __init__(self) -> None:
        self._info: FencedExecutionInfo | None = None

    def info(self) -> FencedExecutionInfo:
        """getExecutionInfo. Raises GENERAL_FAILURE until it has ended; from then on it is always the same."""
        info = self._info
        if info is None:
            general_failure("the fenced execution has not ended")
        return info

    def end(self, info: FencedExecutionInfo) -> None:
        """Say how it ended."""
        self._info = info
