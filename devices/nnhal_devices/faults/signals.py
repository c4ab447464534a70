"""Fences that fail though their execution has not, or that never signal."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.fence import Signal
from nnhal_devices.faults.fault_set import FaultSet, Point, later_of
from nnhal_devices.faults.injection import tell
from nnhal_devices.faults.model_facts import ModelFacts
from nnhal_hosting.faults import FenceFault


class FaultySignal:
    """The signalling end of a fence that does what faults say."""

    def __init__(self, signal: Signal, facts: ModelFacts | None, faults: FaultSet) -> None:
        self._signal = signal
        self._facts = facts
        self._faults = faults

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody has cancelled the fence."""
        return self._signal.is_cancelled

    def send(self) -> None:
        """Signal, fail in place of that, or keep the signal back until a fault is removed."""
        self._act(self._signal.send)

    def fail(self) -> None:
        """Fail, or keep that back."""
        self._act(self._signal.fail)

    def _act(self, act: Callable[[], None]) -> None:
        for active in later_of(self._faults, Point.FENCE, self._facts):
            assert isinstance(active.fault, FenceFault)
            tell(active, self._facts, active.fault.outcome)
            if active.fault.outcome == "never":
                self._faults.hold(active, act)
                return
            act = self._signal.fail
        act()
