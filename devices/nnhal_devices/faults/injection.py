"""Effect of a fault on the call that meets it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from types import TracebackType

from nnhal.errors import HalError
from nnhal.injected import injected_fault
from nnhal_devices.driver import Control
from nnhal_devices.faults.fault_set import CURRENT, ActiveFault, FaultSet, Point
from nnhal_devices.faults.model_facts import ModelFacts
from nnhal_hosting.faults import (
    DeathFault,
    DelayFault,
    ErrorFault,
    Fault,
    FaultDocument,
    HangFault,
    MemoryFault,
    ShrunkSramFault,
)
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)
_LOOK_SECONDS = 0.05
_DYING_SECONDS = 5.0


class DeviceFaults:
    """The faults of a device, and their injection. As a context, it lets go on exit what hangs.

    Safe to use from several threads.
    """

    def __init__(self, device: str, document: FaultDocument | None = None) -> None:
        """``device`` is the name by which faults mean this device. Raises as ``FaultSet``."""
        self.set = FaultSet(device, document)

    def __enter__(self) -> DeviceFaults:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.set.clear()

    def inject(self, point: Point, facts: ModelFacts | None = None, control: Control | None = None) -> None:
        """Do what the faults say that the present call meets here.

        ``control`` is that of a run. Raises HalError: that of a fault, and as ``control`` does while a call is delayed.
        """
        self.do(self.set.met(point, facts), facts, control)

    def do(
        self, met: Sequence[ActiveFault], facts: ModelFacts | None, control: Control | None, is_logged: bool = True
    ) -> None:
        """Do what some faults say, and log it if it ``tells``. Raises HalError as ``inject``."""
        for active in met:
            fault, seconds = active.fault, self.set.drawn_seconds(active)
            if is_logged and (detail := _detail(fault, seconds, facts)):
                log_fault(active, facts, detail)
            match fault:
                case DelayFault():
                    delay(seconds, control)
                case HangFault():
                    _hang(active, control)
                case DeathFault():
                    _die(fault)
                case ShrunkSramFault() if facts is not None:
                    raise HalError(fault.error_status, f"{fault_words(active)}: {_detail(fault, seconds, facts)}")
                case ErrorFault() | MemoryFault():
                    raise HalError(fault.error_status, fault_words(active))


def _detail(fault: Fault, seconds: float, facts: ModelFacts | None) -> str:
    """Say what a fault does before or in place of a call, in words; empty if it does nothing there."""
    match fault:
        case DelayFault():
            return f"{seconds * 1000:.3f} ms"
        case HangFault():
            return "until it is cleared"
        case DeathFault():
            return f"exit status {fault.exit}" if fault.exit is not None else fault.signal or "SIGKILL"
        case ShrunkSramFault() if facts is not None:
            return f"a run takes {facts.working_bytes:,} bytes of SRAM, there are {fault.bytes:,}"
        case ErrorFault() | MemoryFault():
            return fault.status
    return ""


def fault_words(active: ActiveFault) -> str:
    """Return the message to a client about a fault that makes its call fail."""
    message = getattr(active.fault, "message", "")
    return f"{injected_fault(active.name)}{': ' if message else ''}{message}"


def log_fault(active: ActiveFault, facts: ModelFacts | None, detail: str) -> None:
    """Log that a fault is injected."""
    call = CURRENT.get()
    _log.warning(
        "fault injected",
        fault=active.name,
        what=active.fault.what,
        detail=detail,
        method=call.method,
        session=call.session,
        client=call.client,
        **({"model": facts.fingerprint} if facts is not None else {}),
    )


def delay(seconds: float, control: Control | None = None) -> None:
    """Wait, as a driver does that works: a run ends at its deadline, or when it is cancelled."""
    if control is None:
        wanted, until = CURRENT.get().is_wanted, time.monotonic() + seconds
        pause = threading.Event()
        while (left := until - time.monotonic()) > 0 and wanted():
            pause.wait(min(left, _LOOK_SECONDS))
        return
    stopped = threading.Event()
    before, control.stop = control.stop, stopped.set
    try:
        control.check()
        stopped.wait(seconds)
    finally:
        control.stop = before
    control.check()


def _hang(active: ActiveFault, control: Control | None) -> None:
    """Wait until the fault is removed. A run hangs on without its client, until the watchdog ends the process."""
    if control is None:
        wanted = CURRENT.get().is_wanted
        while not active.released.wait(_LOOK_SECONDS) and wanted():
            pass
        return
    before = control.stop
    if before is None:
        control.stop = _ignore  # of a run in the command queue, the watchdog ends only what can be stopped
    active.released.wait()
    control.stop = before


def _ignore() -> None:
    """Do not stop."""


def _die(fault: DeathFault) -> None:
    """End the process. With SIGTERM, it ends in order, and the call goes on."""
    if fault.exit is not None:
        os._exit(fault.exit)
    number = signal.Signals[fault.signal or "SIGKILL"]
    os.kill(os.getpid(), number)
    if number is not signal.SIGTERM:
        time.sleep(_DYING_SECONDS)
        os._exit(128 + number)  # the first process of a container does not die of signals that it sends itself
