"""Steps chained by fences: all are launched at once, and the devices run without the framework in between."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from nnhal.errors import HalError, NnhalError, TransportError
from nnhal.fence import Fence, FenceError
from nnhal.remote import RemoteLauncher
from nnhal.types import ErrorStatus
from nnhal_service.runtime.bound_step import BoundStep
from nnhal_service.runtime.reports import OutputReport, StepReport

MAX_FENCES = 16
"""What one launch may wait for."""


class Access(NamedTuple):
    """Bytes that a step reads or writes."""

    pool: int
    start: int
    end: int
    is_write: bool

    def conflicts(self, other: Access) -> bool:
        """Whether the order of the two matters."""
        return (
            self.pool == other.pool
            and self.start < other.end
            and other.start < self.end
            and (self.is_write or other.is_write)
        )


def dependencies(steps: Sequence[Sequence[Access]]) -> list[tuple[int, ...]]:
    """For each step the earlier ones that must have ended before it begins; without those that follow from the others.

    Values that share bytes of an arena order their steps as much as a value that is passed.
    """
    ancestors: list[int] = []  # sets of steps as bits
    found: list[tuple[int, ...]] = []
    for number, accesses in enumerate(steps):
        covered, direct = 0, []
        for earlier in reversed(range(number)):
            if covered >> earlier & 1:
                continue
            if any(mine.conflicts(theirs) for mine in accesses for theirs in steps[earlier]):
                direct.append(earlier)
                covered |= ancestors[earlier] | 1 << earlier
        ancestors.append(covered)
        found.append(tuple(reversed(direct)))
    return found


class Chained:
    """See Steps. The sizes of all outputs must be known."""

    def __init__(
        self,
        steps: Sequence[BoundStep],
        needs: Sequence[tuple[int, ...]],
        shown: frozenset[int],
        measure: bool,
    ) -> None:
        """``needs`` are the dependencies, ``shown`` those steps of asynchronous devices that must be synced.

        Raises HalError where a device refuses, TransportError where one is gone.
        """
        self._steps = tuple(zip(steps, needs, strict=True))
        used = {need for each in needs for need in each}
        self._shown = shown | {
            need
            for step, each in self._steps
            for need in each
            if steps[need].is_asynchronous and steps[need].device != step.device
        }
        self._ends = tuple(sorted((set(range(len(steps))) - used) | self._shown))
        self._measure = measure
        self._launchers: dict[str, RemoteLauncher] = {}
        try:
            for step in steps:
                if step.device not in self._launchers:
                    self._launchers[step.device] = step.part.member.remote.open_launcher()
        except BaseException:
            self.close()
            raise

    @property
    def socket_bytes(self) -> int:
        """See Steps."""
        return sum(launcher.socket_bytes for launcher in self._launchers.values())

    def run(self, deadline_ns: int) -> tuple[list[StepReport], list[OutputReport]]:
        """See Steps."""
        launched: list[_Launched] = []
        try:
            for number, (step, needs) in enumerate(self._steps):
                launched.append(self._launch(number, step, [launched[need] for need in needs], deadline_ns))
            for end in self._ends:
                _wait(launched[end].visible)
        except FenceError as error:
            self._await(launched)
            raise self._cause() or TransportError(f"a step failed, and no device says how: {error}") from error
        except BaseException:
            self._await(launched)
            raise
        return [self._report(step) for step, _ in self._steps] if self._measure else [], []

    def _launch(self, number: int, step: BoundStep, needs: Sequence[_Launched], deadline_ns: int) -> _Launched:
        """Launch a step; what it needs of its own device is in the same queue, what it needs of others must be seen."""
        launcher = self._launchers[step.device]
        fences = [need.ended if need.device == step.device else need.visible for need in needs]
        waited = [fence for fence in fences if fence is not None]
        ended = launcher.launch(step.execution, waited, deadline_ns, enqueue=step.is_asynchronous)
        if number not in self._shown:
            return _Launched(step.device, ended, ended)
        return _Launched(step.device, ended, launcher.sync([ended] if ended is not None else []))

    def close(self) -> None:
        """See Steps."""
        for launcher in self._launchers.values():
            launcher.close()

    def _await(self, launched: Sequence[_Launched]) -> None:
        """Let everything end that was launched: it uses the memory of the run."""
        for launch in launched:
            with contextlib.suppress(FenceError):
                _wait(launch.ended)
        for device in {step.device for step, _ in self._steps if step.is_asynchronous}:
            with contextlib.suppress(FenceError, NnhalError):
                _wait(self._launchers[device].sync())

    def _cause(self) -> HalError | None:
        """The error of the first step that failed; those that waited for it have failed after it."""
        for step, _ in self._steps:
            info = self._launchers[step.device].info(step.execution)
            if info.status != ErrorStatus.NONE:
                return HalError(info.status, f"the step on {step.device}: {info.message}")
        return None

    def _report(self, step: BoundStep) -> StepReport:
        info = self._launchers[step.device].info(step.execution)
        timing = info.timing_fenced
        return StepReport(
            step.device,
            timing.time_in_driver_ns,
            timing.time_on_device_ns,
            timing.time_in_driver_ns,
            info.staged_bytes,
            info.staging_ns,
        )


class _Launched(NamedTuple):
    """A launched step: the fence of its end, and the one of its results being visible; None where that is so already.

    On an asynchronous device a step has ended when it is in the queue.
    """

    device: str
    ended: Fence | None
    visible: Fence | None


def _wait(fence: Fence | None) -> None:
    if fence is not None:
        fence.wait()
