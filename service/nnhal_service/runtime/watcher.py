"""Who wants to know of the runs of a context, whoever asked for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from nnhal.types import RunUsage
from nnhal_service.runtime.prepared_plan import PreparedPlan
from nnhal_service.runtime.reports import RunReport


class Context(Protocol):
    """What there is to know of a context."""

    @property
    def items(self) -> int:
        """The length of the first input's first axis; 1 without one."""

    @property
    def prepared(self) -> PreparedPlan:
        """The plan of the last run."""

    @property
    def lent_by(self) -> PreparedPlan:
        """The plan whose only step is lent, or was last; that of the last run where none was."""

    @property
    def lengths(self) -> Mapping[int, int]:
        """Bytes of the values that have a place of their own, by operand."""


class RunWatcher(Protocol):
    """Is told of runs, in their threads. It should be quick, and must not raise."""

    def ran(self, context: Context, report: RunReport) -> None:
        """A run has succeeded."""

    def failed(self, context: Context, duration_ns: int) -> None:
        """A run has failed."""

    def lent(self, context: Context, usage: RunUsage) -> None:
        """So much has been run of a step that is lent since this was last said."""
