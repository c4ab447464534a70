"""Who wants to know of the runs of a context, whoever asked for them."""

from __future__ import annotations

from typing import Protocol

from nnhal.types import RunUsage


class Context(Protocol):
    """What there is to know of a context."""

    @property
    def items(self) -> int:
        """The length of the first input's first axis; 1 without one."""


class RunWatcher(Protocol):
    """Is told of runs, in their threads. It should be quick, and must not raise."""

    def ran(self, context: Context, duration_ns: int) -> None:
        """A run has succeeded."""

    def failed(self, context: Context, duration_ns: int) -> None:
        """A run has failed."""

    def lent(self, context: Context, usage: RunUsage) -> None:
        """So much has been run of a step that is lent since this was last said."""
