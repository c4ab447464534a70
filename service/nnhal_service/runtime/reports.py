"""What a run says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.errors import HalError
from nnhal.types import Copy, ErrorStatus
from nnhal.types.layout import Dimensions


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step of a run took, nanoseconds and bytes. Times that were not measured are -1.

    ``device`` ran it, which is another one than the plan's where that failed. ``step`` is its number in the plan;
    ``started_ns`` and ``ended_ns`` are instants of CLOCK_BOOTTIME. ``copies`` say when its
    bytes were copied.
    """

    device: str
    duration_ns: int
    time_on_device_ns: int
    time_in_driver_ns: int
    copied_bytes: int
    copy_duration_ns: int
    step: int = 0
    started_ns: int = -1
    ended_ns: int = -1
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What became of one use of a value in a run: the bytes that were copied for it, and why.

    ``source_step`` wrote it and ``destination_step`` read it; None is the client. ``source`` and ``destination`` are
    the devices, empty for the client. An entry without a value is what a device copied beyond the plan in one step:
    more, or less where its ``copied_bytes`` are below 0.
    """

    value: str
    source_step: int | None
    destination_step: int | None
    source: str
    destination: str
    strategy: str
    bytes: int
    copied_bytes: int
    reason: str


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
