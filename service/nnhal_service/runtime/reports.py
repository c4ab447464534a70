"""What a run says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step of a run took, nanoseconds and bytes. Times that were not measured are -1."""

    device: str
    duration_ns: int
    time_on_device_ns: int
    time_in_driver_ns: int
    copied_bytes: int
    copy_duration_ns: int


@dataclass(frozen=True, slots=True)
class OutputReport:
    """What a device has said of an output: its dimensions, and whether it fitted its memory."""

    name: str
    dimensions: Dimensions
    sufficient: bool


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run took.

    ``socket_bytes`` went to devices and back; ``steps`` is empty unless the context measures. ``outputs`` are those of
    which a device has said anything.
    """

    duration_ns: int
    socket_bytes: int
    steps: tuple[StepReport, ...] = ()
    outputs: tuple[OutputReport, ...] = ()


class OutputTooSmallError(HalError):
    """OUTPUT_INSUFFICIENT_SIZE, with what the outputs need."""

    def __init__(self, device: str, outputs: Sequence[OutputReport]) -> None:
        message = f"an output of the step on {device} does not fit its memory"
        super().__init__(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, message)
        self.outputs = tuple(outputs)
