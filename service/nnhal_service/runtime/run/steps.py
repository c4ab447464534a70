"""A step of a plan, tied to memory: one reusable execution."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nnhal.remote import RemoteBurst, RemoteExecution
from nnhal.remote.burst import BurstOutcome
from nnhal.reports import StepReport
from nnhal.types import ExecutionConfig, Request
from nnhal_service.fallback import Side
from nnhal_service.runtime.plan.parts import Part
from nnhal_service.runtime.run.cancellation import Cancellation, require_wanted
from nnhal_service.runtime.run.reports import OutputReport, OutputTooSmallError


@dataclass(frozen=True, slots=True)
class BoundStep:
    """``outputs`` has the names of those outputs of the step that are the model's, empty for the others.

    ``is_asynchronous``: the device shows its results only when it is synced.
    """

    device: str
    is_asynchronous: bool
    part: Part
    execution: RemoteExecution
    outputs: Sequence[str]


def bind_step(side: Side, outputs: Sequence[str], part: Part, request: Request, config: ExecutionConfig) -> BoundStep:
    """Tie a step to memory. Raises HalError where the device refuses, TransportError where it is gone."""
    execution = part.prepared.create_reusable_execution(request, config)
    return BoundStep(side.name, side.is_asynchronous, part, execution, outputs)


class Steps(Protocol):
    """The steps of a plan, ready to run one after the other or as far as possible at once. They run once at a time."""

    @property
    def socket_bytes(self) -> int:
        """Bytes that went to devices and back since the start."""
        ...

    @property
    def done(self) -> Sequence[StepReport] | None:
        """After a run that failed, the steps that ended well, which need not run again; None where nobody knows."""
        ...

    def run(
        self, deadline_ns: int, cancellation: Cancellation | None = None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        """Run all of them. Raises HalError, or TransportError where a device is gone.

        Where the run is given up, CancelledRunError: the steps that had begun have ended, and no other will begin.
        """
        ...

    def close(self) -> None:
        """Release what runs them."""
        ...


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
