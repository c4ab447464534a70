"""Reports of runs, and their readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from nnhal.errors import HalError
from nnhal.reports import LedgerEntry, StepReport
from nnhal.types import ErrorStatus, RunUsage
from nnhal.types.layout import Dimensions
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan


@dataclass(frozen=True, slots=True)
class OutputReport:
    """A device's report of an output: its dimensions, and whether it fitted its memory."""

    name: str
    dimensions: Dimensions
    sufficient: bool


class InjectedFailure(NamedTuple):
    """A fault that was injected on purpose, and for which a step was run elsewhere, or again."""

    fault: str
    step: int
    """In the plan; CLIENT_STEP if that is not known."""
    device: str
    """The device of the step; empty if that is not known."""


def step_on(device: str) -> str:
    """Return how errors name a step of a run."""
    return f"the step on {device}"


@dataclass(slots=True)  # not frozen: to make one of that kind takes three times as long, and each run does
class RunReport:
    """The report of a run that succeeded. It does not change."""

    duration_ns: int
    """From the call to the answer."""
    socket_bytes: int
    """Bytes that went to devices and back."""
    steps: tuple[StepReport, ...] = ()
    """One for each step that ran; empty unless the context measures."""
    outputs: tuple[OutputReport, ...] = ()
    """Those outputs that a device has reported."""
    ledger: tuple[LedgerEntry, ...] = ()
    """What was copied, and why; empty unless the context measures."""
    started_ns: int = -1
    """An instant of CLOCK_BOOTTIME; -1 unless the context measures."""
    fell_back: bool = False
    """True if another device ran a step whose own device failed, or the whole model ran on the CPU."""
    failed_devices: tuple[str, ...] = ()
    """The devices of the steps that fell back; empty if the whole model did at once."""


class OutputTooSmallError(HalError):
    """OUTPUT_INSUFFICIENT_SIZE, with what the outputs need."""

    def __init__(self, device: str, outputs: Sequence[OutputReport]) -> None:
        message = f"an output of the step on {device} does not fit its memory"
        super().__init__(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, message)
        self.outputs = tuple(outputs)


class TouchedMemoryError(HalError):
    """DEVICE_UNAVAILABLE: a device that sleeps may write to the outputs of the run, which succeeds in other memory."""

    def __init__(self) -> None:
        message = "a device does not answer, and may write to the memory of the outputs when it does: bind other memory"
        super().__init__(ErrorStatus.DEVICE_UNAVAILABLE, message)


class Context(Protocol):
    """Parts of the running context that a watcher may ask for."""

    @property
    def items(self) -> int:
        """The length of the first input's first axis; 1 if it has none."""

    @property
    def prepared(self) -> PreparedPlan:
        """The plan of the last run."""

    @property
    def direct_plan(self) -> PreparedPlan:
        """The plan behind the latest run channel; that of the last run if there was no channel."""

    @property
    def lengths(self) -> Mapping[int, int]:
        """Bytes of the values that have memory of their own, by operand."""


class RunWatcher(Protocol):
    """Is called after each run, in the run's thread. It must be quick and must not raise."""

    def ran(self, context: Context, report: RunReport) -> None:
        """A run has succeeded."""

    def failed(self, context: Context, duration_ns: int, error: BaseException) -> None:
        """A run has failed with an error, which must not be kept."""

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        """The client has run so much over the run channel since the last call."""
