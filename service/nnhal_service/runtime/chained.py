"""Steps chained by fences: all are launched at once, and the devices run without the framework in between."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from nnhal.errors import HalError, TransportError
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

    def __init__(self, steps: Sequence[BoundStep], needs: Sequence[tuple[int, ...]], measure: bool) -> None:
        """``needs`` are the dependencies. Raises HalError where a device refuses, TransportError where one is gone."""
        self._steps = tuple(zip(steps, needs, strict=True))
        self._ends = tuple(sorted(set(range(len(steps))) - {need for each in needs for need in each}))
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
        fences: list[Fence | None] = []
        try:
            for step, needs in self._steps:
                waited = [fence for need in needs if (fence := fences[need]) is not None]
                fences.append(self._launchers[step.device].launch(step.execution, waited, deadline_ns))
            for end in self._ends:
                if (fence := fences[end]) is not None:
                    fence.wait()
        except FenceError as error:
            self._await(fences)
            raise self._cause() or TransportError(f"a step failed, and no device says how: {error}") from error
        except BaseException:
            self._await(fences)
            raise
        return [self._report(step) for step, _ in self._steps] if self._measure else [], []

    def close(self) -> None:
        """See Steps."""
        for launcher in self._launchers.values():
            launcher.close()

    def _await(self, fences: Sequence[Fence | None]) -> None:
        """Let everything end that was launched: it uses the memory of the run."""
        for fence in fences:
            if fence is not None:
                with contextlib.suppress(FenceError):
                    fence.wait()

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
