"""What a run says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nnhal.errors import HalError
from nnhal.reports import LedgerEntry, StepReport
from nnhal.types import ErrorStatus, RunUsage
from nnhal.types.layout import Dimensions
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan


@dataclass(frozen=True, slots=True)
class OutputReport:
    """What a device has said of an output: its dimensions, and whether it fitted its memory."""

    name: str
    dimensions: Dimensions
    sufficient: bool


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run took.

    ``socket_bytes`` went to devices and back; ``steps`` and ``ledger`` are empty unless the context measures.
    ``outputs`` are those of which a device has said anything. ``started_ns`` is an instant of CLOCK_BOOTTIME, -1 unless
    it measures. ``fell_back`` says that a device stood in for one that failed, or that the whole model ran on the CPU.
    """

    duration_ns: int
    socket_bytes: int
    steps: tuple[StepReport, ...] = ()
    outputs: tuple[OutputReport, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    started_ns: int = -1
    fell_back: bool = False


class OutputTooSmallError(HalError):
    """OUTPUT_INSUFFICIENT_SIZE, with what the outputs need."""

    def __init__(self, device: str, outputs: Sequence[OutputReport]) -> None:
        message = f"an output of the step on {device} does not fit its memory"
        super().__init__(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, message)
        self.outputs = tuple(outputs)


class Context(Protocol):
    """What there is to know of a context."""

    @property
    def items(self) -> int:
        """The length of the first input's first axis; 1 without one."""

    @property
    def prepared(self) -> PreparedPlan:
        """The plan of the last run."""

    @property
    def direct_plan(self) -> PreparedPlan:
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

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        """So much has been run of a step that is lent since this was last said."""
