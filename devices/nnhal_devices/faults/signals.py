"""Fences that fail though their execution has not, or that never signal."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.fence import Signal
from nnhal_devices.faults.fault_set import ActiveFault, FaultSet
from nnhal_devices.faults.injection import tell
from nnhal_devices.faults.model_facts import ModelFacts
from nnhal_hosting.faults import FenceFault


class FaultySignal:
    """The signalling end of a fence that does what a fault says."""

    def __init__(self, signal: Signal, active: ActiveFault, facts: ModelFacts | None, faults: FaultSet) -> None:
        assert isinstance(active.fault, FenceFault)
        self._signal = signal
        self._active = active
        self._fails = active.fault.outcome == "fails"
        self._faults = faults
        tell(active, facts, active.fault.outcome)

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody has cancelled the fence."""
        return self._signal.is_cancelled

    def send(self) -> None:
        """Fail in place of signalling, or keep the signal back until the fault is removed."""
        if self._fails:
            self._signal.fail()
        else:
            self._keep(self._signal.send)

    def fail(self) -> None:
        """Fail, or keep that back."""
        if self._fails:
            self._signal.fail()
        else:
            self._keep(self._signal.fail)

    def _keep(self, act: Callable[[], None]) -> None:
        self._faults.hold(self._active, act)
