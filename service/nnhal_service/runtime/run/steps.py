"""The steps of a plan, each bound to memory as one reusable execution, and running them in turn."""

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
    """A step whose values have their memory."""

    device: str
    is_asynchronous: bool
    """Whether the device's results are visible only after a sync."""
    part: Part
    execution: RemoteExecution
    outputs: Sequence[str]
    """The names of those outputs that are the model's; empty strings for the others."""


def bind_step(side: Side, outputs: Sequence[str], part: Part, request: Request, config: ExecutionConfig) -> BoundStep:
    """Bind a step to memory. Raises HalError if the device refuses, TransportError if it is gone."""
    execution = part.prepared.create_reusable_execution(request, config)
    return BoundStep(side.name, side.is_asynchronous, part, execution, outputs)


class Steps(Protocol):
    """The bound steps of a plan, ready to run: one run at a time."""

    @property
    def socket_bytes(self) -> int:
        """Bytes that went to devices and back so far."""
        ...

    @property
    def done(self) -> Sequence[StepReport] | None:
        """After a failed run, the steps that succeeded and need not run again; None if that is unknown."""
        ...

    def run(
        self, deadline_ns: int, cancellation: Cancellation | None = None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        """Run all steps.

        Raises HalError, TransportError if a device is gone, and CancelledRunError if the run was cancelled: the steps
        that had begun have ended, and no other begins.
        """
        ...

    def close(self) -> None:
        """Release the bursts or launchers that run them."""
        ...


class InTurn:
    """Steps that run one after the other, each over a burst: for a single step, and if fences would be too many."""

    def __init__(self, steps: Sequence[BoundStep], measure: bool) -> None:
        """A single step is reported only with ``measure``.

        Raises HalError if a device refuses, TransportError if one is gone.
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
        if len(self._steps) == 1:  # every run asks for it
            return self._steps[0][1].socket_bytes
        return sum(burst.socket_bytes for _, burst in self._steps)

    @property
    def done(self) -> Sequence[StepReport]:
        return self._reports

    def run(
        self, deadline_ns: int, cancellation: Cancellation | None = None
    ) -> tuple[list[StepReport], list[OutputReport]]:
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
        for _, burst in self._steps:
            burst.close()


def step_report(number: int, device: str, duration_ns: int, outcome: BurstOutcome) -> StepReport:
    """The report of step ``number`` of a plan, which a device ran over a burst."""
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
