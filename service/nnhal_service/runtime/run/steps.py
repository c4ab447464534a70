"""The steps of a plan, each bound to memory as one reusable execution, and running them in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from nnhal.codec.lengths import Lengths
from nnhal.errors import HalError
from nnhal.link import Traffic
from nnhal.remote import RemoteExecution
from nnhal.remote.burst import BurstOutcome
from nnhal.reports import StepReport
from nnhal.types import ErrorStatus, ExecutionConfig, Request
from nnhal_service.fallback import Side
from nnhal_service.runtime.memory.slots import Slot
from nnhal_service.runtime.plan.parts import Part
from nnhal_service.runtime.run.cancellation import Cancellation, StoppableBurst, require_wanted
from nnhal_service.runtime.run.reports import OutputReport, OutputTooSmallError, step_on

Outcome = tuple[list[StepReport], list[OutputReport]]
"""Reports of the steps, if they are measured or only some of them ran, and reports of outputs."""


@dataclass(frozen=True, slots=True)
class BoundStep:
    """A step whose values have their memory."""

    device: str
    is_asynchronous: bool
    """True if the device's results are visible only after a sync."""
    part: Part
    execution: RemoteExecution
    outputs: Sequence[str]
    """The names of those outputs that are the model's; empty strings for the others."""
    can_be_wired: bool = False
    """True if it can be a stage of a wired chain."""
    surely_fit: Sequence[bool] = ()
    """Of each output whether its size is known and its memory has room for it."""


def bind_step(side: Side, outputs: Sequence[Slot], part: Part, request: Request, config: ExecutionConfig) -> BoundStep:
    """Bind a step to memory. Raises HalError if the device refuses, TransportError if it is gone."""
    execution = part.prepared.create_reusable_execution(request, config)
    names, surely_fit = [slot.name for slot in outputs], [slot.surely_fits for slot in outputs]
    return BoundStep(side.name, side.is_asynchronous, part, execution, names, side.can_be_wired, surely_fit)


def executions_of(steps: Sequence[BoundStep]) -> list[tuple[str, RemoteExecution]]:
    """Return the executions of steps, each after the name of its device."""
    return [(step.device, step.execution) for step in steps]


def numbers_answers(steps: Sequence[BoundStep]) -> bool:
    """True if the devices of all steps answer with the numbers of calls. Steps of others run by calls over gRPC: on a
    channel, an answer that comes twice or late may be taken for that of another call.
    """
    return all(step.part.prepared.calls.numbers_answers for step in steps)


class Steps(Protocol):
    """The bound steps of a plan, ready to run: one run at a time."""

    @property
    def done(self) -> Sequence[StepReport] | None:
        """After a failed run, the steps that succeeded and need not run again; None if that is unknown."""
        ...

    def run(self, deadline_ns: int, cancellation: Cancellation | None = None) -> Outcome:
        """Run all steps.

        Raises HalError, TransportError if a device is gone, and CancelledRunError if the run was cancelled: the steps
        that had begun have ended, and no other begins.
        """
        ...

    def stop(self) -> None:
        """Have the devices end a run in flight, which fails; in any thread, also if there is none."""
        ...

    def close(self) -> None:
        """Release the bursts or launchers that run them."""
        ...


@runtime_checkable
class OneExchange(Steps, Protocol):
    """Steps whose run is one message to a device and one back, so that nothing needs to wait in between.

    ``run`` is ``start`` and ``finish``, with what has to be done before.
    """

    def start(self, deadline_ns: int, cancellation: Cancellation | None = None) -> bool:
        """Send the message that begins a run, if that is all that is to be done; return whether it was sent.

        Raises as ``run`` does, and then there is nothing to finish.
        """
        ...

    def fileno(self) -> int:
        """The descriptor that can be read when the run that was started has ended."""
        ...

    def finish(self) -> Outcome:
        """Receive how the run ended that was started; waits for it. Raises as ``run`` does."""
        ...


class SingleStep:
    """The only step of a plan, over a burst."""

    def __init__(self, step: BoundStep, measure: bool, traffic: Traffic) -> None:
        """The step is reported if ``measure``. Raises HalError if the device refuses, TransportError if it is gone."""
        self._step = step
        self._burst = StoppableBurst(step.part.prepared, traffic)
        self._measure = measure
        self._known: tuple[BurstOutcome | None, list[OutputReport]] = None, []
        """The last outcome, which is the same object as long as the device answers the same, and its reports."""
        self._started = 0
        self.lengths: Lengths = ()
        """The dimensions of the step's inputs in the next run, if they are not those that it was bound with."""

    @property
    def takes_lengths(self) -> bool:
        return self._burst.takes_lengths

    @property
    def done(self) -> Sequence[StepReport]:
        return ()

    def run(self, deadline_ns: int, cancellation: Cancellation | None = None) -> Outcome:
        if self._measure:
            self._started = time.perf_counter_ns()
        self._burst.start(self._step.execution, deadline_ns, cancellation, self.lengths)
        return self.finish()

    def start(self, deadline_ns: int, cancellation: Cancellation | None = None) -> bool:
        burst = self._burst.burst
        if burst is None or burst.is_over:
            return False
        if self._measure:
            self._started = time.perf_counter_ns()
        self._burst.start(self._step.execution, deadline_ns, cancellation, self.lengths)
        return True

    def pause(self) -> None:
        """Run seldom from now on, and keep nothing for that at the device."""
        self._burst.pause()

    def fileno(self) -> int:
        return self._burst.fileno()

    def finish(self) -> Outcome:
        step = self._step
        outcome = self._burst.finish(step.execution)
        known, outputs = self._known
        if outcome is not known:
            outputs = output_reports(step, outcome)
            self._known = outcome, outputs
        if not self._measure:
            return [], outputs
        return [step_report(0, step.device, time.perf_counter_ns() - self._started, outcome)], outputs

    def stop(self) -> None:
        self._burst.stop()

    def close(self) -> None:
        self._burst.close()


class InTurn:
    """Steps that run one after the other, each over a burst: for more steps than fences can order."""

    def __init__(self, steps: Sequence[BoundStep], traffic: Traffic) -> None:
        """Raises HalError if a device refuses, TransportError if one is gone."""
        self._steps: list[tuple[BoundStep, StoppableBurst]] = []
        self._reports: list[StepReport] = []
        try:
            for step in steps:
                self._steps.append((step, StoppableBurst(step.part.prepared, traffic)))
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> Sequence[StepReport]:
        return self._reports

    def run(self, deadline_ns: int, cancellation: Cancellation | None = None) -> Outcome:
        outputs: list[OutputReport] = []
        reports = self._reports = []
        for number, (step, burst) in enumerate(self._steps):
            if number:
                require_wanted(cancellation)
            started = time.perf_counter_ns()
            outcome = burst.run(step.execution, deadline_ns, cancellation)
            outputs += output_reports(step, outcome, outputs)
            reports.append(step_report(number, step.device, time.perf_counter_ns() - started, outcome))
        return reports, outputs

    def stop(self) -> None:
        for _, burst in self._steps:
            burst.stop()

    def close(self) -> None:
        for _, burst in self._steps:
            burst.close()


def output_reports(step: BoundStep, outcome: BurstOutcome, before: Sequence[OutputReport] = ()) -> list[OutputReport]:
    """Return what a device reports of a step's outputs that are the model's; ``before`` is what earlier steps reported.

    Raises OutputTooSmallError, with all of these, if one does not fit its memory, and as ``require_fitting``.
    """
    result = outcome.result
    require_fitting(step, outcome)
    outputs = [
        OutputReport(name, shape.dimensions, shape.is_sufficient)
        for name, shape in zip(step.outputs, result.output_shapes, strict=False)
        if name
    ]
    if not result.output_sufficient_size:
        raise OutputTooSmallError(step.device, [*before, *outputs])
    return outputs


def require_fitting(step: BoundStep, outcome: BurstOutcome) -> None:
    """Raise GENERAL_FAILURE if a device says that an output does not fit whose size was known, and so its memory."""
    result = outcome.result
    if result.output_sufficient_size:
        return
    for number, (shape, surely_fits) in enumerate(zip(result.output_shapes, step.surely_fit, strict=False)):
        if surely_fits and not shape.is_sufficient:
            raise misfit(step.device, number)


def misfit(device: str, number: int) -> HalError:
    """The error of a device that says of an output of its step, by its number, that it does not fit, when it does."""
    message = f"{step_on(device)}: it says that output {number} does not fit its memory, which has room for it"
    return HalError(ErrorStatus.GENERAL_FAILURE, message)


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
