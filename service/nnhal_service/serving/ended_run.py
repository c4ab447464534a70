"""What is kept of a request, or of a run of a native client, after its end."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from nnhal_service.runtime import RunReport
from nnhal_service.serving.request import RequestTiming


class EndedRun(NamedTuple):
    """A request, or a run of a native client, that has ended. It refers to no memory of its tensors."""

    model: str
    version: str
    """Empty for a model of a session."""
    client: str
    """Who asked for it; empty if that is unknown."""
    request_id: str
    """The id that the client gave it, empty if none."""
    arrived_ns: int
    """An instant of CLOCK_MONOTONIC, as ``ended_ns``."""
    ended_ns: int
    timing: RequestTiming | None
    """The instants between its parts; None if it failed, and for a run of a native client, which has no parts."""
    batch_size: int
    devices: str
    """Operations by device, such as ``cpu_acc:3,cpu_ref:1``, or devices alone; empty if unknown."""
    copied_bytes: int
    """What was copied in its run: for a request that of its whole batch."""
    fell_back: bool
    error: str
    """Why it failed; empty if it succeeded."""
    recording: int = 0
    """The number of a recording that has it; 0 for none."""
    report: RunReport | None = None
    """The report of its run, if it is recorded."""

    @property
    def is_troubled(self) -> bool:
        """Whether it failed or fell back."""
        return self.fell_back or bool(self.error)


class RunKeeper(Protocol):
    """Keeps the runs of native clients. Safe to use from several threads; it should be quick, and must not raise."""

    def keep(self, run: EndedRun) -> None:
        """A run has ended. Its report is given if it was measured, or fell back."""
