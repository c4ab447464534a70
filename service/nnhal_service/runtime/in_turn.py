"""Steps that run one after the other, each over a burst: for one step, and where fences would be too many."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nnhal.remote import RemoteBurst
from nnhal.remote.burst import BurstOutcome
from nnhal.reports import StepReport
from nnhal_service.runtime.bound_step import BoundStep
from nnhal_service.runtime.cancellation import Cancellation, require_wanted
from nnhal_service.runtime.reports import OutputReport, OutputTooSmallError


class InTurn:
    """See Steps."""

    def __init__(self, steps: Sequence[BoundStep], measure: bool) -> None:
        """Where nobody measures a single step, it is not reported.

        Raises HalError where a device refuses, TransportError where one is gone.
        """
        self._steps: list[tuple[BoundStep, RemoteBurst]] = []
        self._reports: list[StepReport] = []
        self._reports_steps = measure or len(steps) > 1
        try:
            for step in steps:
                self._steps.append((step, step.part.prepared.configure_execution_burst()))
        except BaseException:
            self.close()
            raise

    @property
    def socket_bytes(self) -> int:
        """See Steps."""
        if len(self._steps) == 1:  # it is asked at every run
            return self._steps[0][1].socket_bytes
        return sum(burst.socket_bytes for _, burst in self._steps)

    @property
    def done(self) -> Sequence[StepReport]:
        """See Steps."""
        return self._reports

    def run(
        self, deadline_ns: int, cancellation: Cancellation | None = None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        """See Steps."""
        outputs: list[OutputReport] = []
        reports = self._reports = []
        for number, (step, burst) in enumerate(self._steps):
            if number:
                require_wanted(cancellation)
            started = time.perf_counter_ns() if self._reports_steps else 0
            outcome = burst.run(step.execution, deadline_ns)
            result = outcome.result
            if result.output_shapes:
                outputs += [
                    OutputReport(name, shape.dimensions, shape.is_sufficient)
                    for name, shape in zip(step.outputs, result.output_shapes, strict=False)
                    if name
                ]
            if not result.output_sufficient_size:
                raise OutputTooSmallError(step.device, outputs)
            if self._reports_steps:
                reports.append(step_report(number, step.device, time.perf_counter_ns() - started, outcome))
        return reports, outputs

    def close(self) -> None:
        """See Steps."""
        for _, burst in self._steps:
            burst.close()


def step_report(number: int, device: str, duration_ns: int, outcome: BurstOutcome) -> StepReport:
    """What is to be said of step ``number`` of a plan, which a device ran over a burst."""
    timing = outcome.result.timing
    return StepReport(
        device,
        duration_ns,
        timing.time_on_device_ns,
        timing.time_in_driver_ns,
        outcome.staged_bytes,
        outcome.staging_ns,
        number,
        *outcome.span,
        outcome.copies,
    )
