"""Runs the steps of a plan one after the other, on any device that can run them.

The engine walks control flow, learns unknown sizes, and falls back. A step that its own device cannot run is run once
by the fallback device, with the same values, and the run continues with the next step (NNAPI's partial fallback). If
that fails too, or a step of the fallback device itself, the whole model runs on the fallback device; inputs are never
modified, so that a run can start again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from nnhal.codec.lengths import Lengths
from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError, general_failure, without_frames
from nnhal.injected import injected_faults_in
from nnhal.link import ProtocolError, Traffic
from nnhal.remote import BurstOutcome, RemotePreparedModel
from nnhal.reports import CLIENT_STEP, StepReport
from nnhal.types import ErrorStatus, ExecutionConfig, OutputShape, Request
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import Fallback, SourceOperand
from nnhal_service.runtime.memory.requests import empty_lengths, request_of
from nnhal_service.runtime.memory.slots import Slot
from nnhal_service.runtime.memory.values import Values
from nnhal_service.runtime.plan.parts import Part
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError, StoppableBurst, require_wanted
from nnhal_service.runtime.run.deadlines import has_passed
from nnhal_service.runtime.run.reports import (
    InjectedFailure,
    OutputReport,
    OutputTooSmallError,
    TouchedMemoryError,
    step_on,
)
from nnhal_service.runtime.run.steps import misfit, step_report
from nnhal_service.runtime.run.walk import LoopTimeoutError, loop_timeout, walk

_MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)
_log = get_logger(__name__)
FINAL_ERRORS = (OutputTooSmallError, LoopTimeoutError, CancelledRunError, TouchedMemoryError)
"""Errors that another device could not avoid."""


class Engine:
    """Steps that run one after the other and fall back if that is allowed. Runs once at a time.

    ``fell_back`` says that the fallback device ran a step of the last run, ``ran_whole`` that it ran the whole model.
    ``failed_devices`` are those of the steps that it ran, as long as ``fell_back`` holds.
    """

    def __init__(
        self,
        prepared: PreparedPlan,
        values: Values,
        config: ExecutionConfig,
        writers: list[RemotePreparedModel],
        traffic: Traffic,
    ) -> None:
        """``writers`` gets the parts that may still write to the memory of a run (see ``Bindings``).

        Raises INVALID_ARGUMENT if the loop timeout is not valid.
        """
        self._prepared = prepared
        self._parts = prepared.parts
        self._plan = prepared.plan
        self._values = values
        self._config = config
        self.writers = writers
        self._loop_timeout_ns = loop_timeout(config.loop_timeout_duration_ns)
        self._bursts: dict[Part, StoppableBurst] = {}
        self._traffic = traffic
        self._outputs: dict[str, OutputReport] = {}
        self._first: NnhalError | None = None
        self._cancellation: Cancellation | None = None
        self.fell_back = False
        self.ran_whole = False
        self.failed_devices: tuple[str, ...] = ()
        self.injected: tuple[InjectedFailure, ...] = ()
        """The injected faults for which steps of the last run were run elsewhere, or again."""

    @property
    def done(self) -> Sequence[StepReport] | None:
        """None: a run that failed here is not resumed."""
        return None

    def run(
        self, deadline_ns: int, cancellation: Cancellation | None = None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        self._begin(None, cancellation)
        return self._follow(self._order(), [], deadline_ns, None)

    def may_resume(self, error: NnhalError) -> bool:
        """Return whether a failed run may be resumed here. An output that is too small would be so on any device."""
        return self._parts.may_fall_back and not isinstance(error, OutputTooSmallError)

    def resume(
        self,
        deadline_ns: int,
        error: NnhalError,
        done: Sequence[StepReport] | None,
        cancellation: Cancellation | None = None,
    ) -> tuple[list[StepReport], list[OutputReport]]:
        """Resume a run that failed elsewhere. ``done`` are the steps that succeeded; the first of the others failed.

        With None, for unknown, the run starts again. Raises as ``run`` does.
        """
        self._begin(error, cancellation)
        if done is None:
            self._note_injected(error, self._step_named_by(error))
            return self._follow(self._order(), [], deadline_ns, None)
        ended = {report.step for report in done}
        remaining = [number for number in range(len(self._plan.steps)) if number not in ended]
        return self._follow(remaining, [*done], deadline_ns, error)

    def run_whole(
        self, deadline_ns: int, error: NnhalError, cancellation: Cancellation | None = None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        """Run the whole model on the fallback device after an error elsewhere. Raises as ``run`` does."""
        if len(self._plan.steps) == 1:
            return self.resume(deadline_ns, error, (), cancellation)
        self._begin(error, cancellation)
        try:
            return [self._whole(deadline_ns, error)], list(self._outputs.values())
        except (OutputTooSmallError, CancelledRunError):
            raise
        except NnhalError as further:
            raise _of_both(error, further) from further

    def stop(self) -> None:
        for burst in tuple(self._bursts.values()):
            burst.stop()

    def close(self) -> None:
        for burst in self._bursts.values():
            burst.close()
        self._bursts.clear()

    def _begin(self, error: NnhalError | None, cancellation: Cancellation | None = None) -> None:
        self._values.reset()
        self._outputs.clear()
        self._first = None if error is None else without_frames(error)  # which hold the memory of a run
        self._cancellation = cancellation
        self.fell_back = self.ran_whole = False
        self.failed_devices = ()
        self.injected = ()

    def _order(self) -> Iterable[int]:
        control_flow = self._plan.walk
        if control_flow is None:
            return range(len(self._plan.steps))
        return walk(control_flow, self._values, self._loop_timeout_ns)

    def _follow(
        self, numbers: Iterable[int], reports: list[StepReport], deadline_ns: int, failed: NnhalError | None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        """Run these steps; the first has ``failed`` on its own device if there is an error."""
        try:
            try:
                for number in numbers:
                    reports.append(self._step(number, deadline_ns, failed))
                    failed = None
            except FINAL_ERRORS:
                raise
            except NnhalError as error:
                if not self._parts.may_fall_back or len(self._plan.steps) == 1:
                    raise
                reports = [self._whole(deadline_ns, error)]
        except FINAL_ERRORS:
            raise
        except NnhalError as error:
            if self._first in (None, error):
                raise
            raise _of_both(self._first, error) from error
        return reports, list(self._outputs.values())

    def _step(self, number: int, deadline_ns: int, failed: NnhalError | None) -> StepReport:
        step = self._plan.steps[number]
        if failed is None or not isinstance(failed, HalError):  # a device that was gone may have come back
            try:
                return self._run_step(self._parts.living(number), number, True, deadline_ns)
            except (OutputTooSmallError, CancelledRunError):
                raise
            except NnhalError as error:
                failed = without_frames(error)  # this frame, which holds the error, is one of them
        if not self._parts.may_replace(step.device):
            raise failed
        self._note_fallback("a step runs on the fallback device", failed, deadline_ns, step=number, device=step.device)
        self._note_injected(failed, number)
        if step.device not in self.failed_devices:
            self.failed_devices += (step.device,)
        return self._run_step(self._parts.on_fallback(number), number, False, deadline_ns)

    def _run_step(self, part: Part, number: int, own: bool, deadline_ns: int) -> StepReport:
        step = self._plan.steps[number]
        inputs = self._values.slots([SourceOperand(step.scope, operand) for operand in step.inputs])
        outputs = self._values.slots([SourceOperand(step.scope, operand) for operand in step.outputs])
        return self._execute(part, number, inputs, outputs, own, deadline_ns)

    def _whole(self, deadline_ns: int, error: NnhalError) -> StepReport:
        self._note_fallback("the whole model runs on the fallback device", error, deadline_ns)
        self._note_injected(error, self._step_named_by(error))
        self._values.reset()
        self._outputs.clear()
        self.ran_whole = True
        graph = self._prepared.imported.model.main
        inputs = self._values.slots([SourceOperand(0, operand) for operand in graph.input_indexes])
        outputs = self._values.slots([SourceOperand(0, operand) for operand in graph.output_indexes])
        return self._execute(self._parts.on_fallback(None), 0, inputs, outputs, False, deadline_ns)

    def _execute(
        self,
        part: Part,
        number: int,
        inputs: Sequence[Slot],
        outputs: Sequence[Slot],
        own: bool,
        deadline_ns: int,
    ) -> StepReport:
        """Run a step, and again as long as the memory of a value between steps is too small."""
        require_wanted(self._cancellation)
        burst, device = self._burst(part), part.member.name
        for slot in outputs:
            slot.forget()
        if not all(slot.has_room for slot in outputs):
            raise OutputTooSmallError(
                device, [OutputReport(slot.name, slot.expected, slot.has_room) for slot in outputs if slot.name]
            )
        started = time.perf_counter_ns()
        while True:
            request = request_of(inputs, outputs, own)
            try:
                outcome = self._outcome(burst, part, request, empty_lengths(inputs), deadline_ns)
            except NnhalError as error:
                if part.prepared.is_asleep:
                    self.writers.append(part.prepared)
                    raise TouchedMemoryError from error
                raise
            shapes = outcome.result.output_shapes
            self._outputs |= {
                slot.name: OutputReport(slot.name, shape.dimensions, shape.is_sufficient)
                for slot, shape in zip(outputs, shapes, strict=False)
                if slot.name
            }
            if outcome.result.output_sufficient_size:
                break
            self._make_room(device, outputs, shapes)
        ended = time.perf_counter_ns()
        for slot, shape in zip(outputs, shapes or [OutputShape(())] * len(outputs), strict=True):
            slot.written(own, shape.dimensions)
        return step_report(number, device, ended - started, outcome)

    def _outcome(
        self, burst: StoppableBurst, part: Part, request: Request, empty: Lengths, deadline_ns: int
    ) -> BurstOutcome:
        """Execute a request, of which some inputs are ``empty``: only an execution takes the dimensions of those."""
        if not empty:
            return burst.execute(request, self._config, deadline_ns, self._cancellation)
        if not burst.takes_lengths:
            position, dimensions = empty[0]
            general_failure(
                f"{step_on(part.member.name)}: input {position} is empty, {list(dimensions)}, expected elements: the "
                "device takes no lengths by run"
            )
        execution = part.prepared.create_reusable_execution(request, self._config)
        try:
            burst.start(execution, deadline_ns, self._cancellation, empty)
            return burst.finish(execution)
        finally:
            execution.release()

    def _make_room(self, device: str, outputs: Sequence[Slot], shapes: Sequence[OutputShape]) -> None:
        """Grow the memory of values that did not fit. Raises OutputTooSmallError if none can or one is the client's.

        Raises GENERAL_FAILURE if one was known to fit.
        """
        short = [
            (slot, shape.dimensions) for slot, shape in zip(outputs, shapes, strict=True) if not shape.is_sufficient
        ]
        for number, (slot, shape) in enumerate(zip(outputs, shapes, strict=True)):
            if slot.surely_fits and not shape.is_sufficient:
                raise misfit(device, number)
        grown = [not slot.name and slot.learn(dimensions) for slot, dimensions in short]
        if any(slot.name for slot, _ in short) or not any(grown):
            raise OutputTooSmallError(device, list(self._outputs.values()))

    def _burst(self, part: Part) -> StoppableBurst:
        if part not in self._bursts:
            for stale in [known for known in self._bursts if known.prepared.gone]:
                self._bursts.pop(stale).close()
            self._bursts[part] = StoppableBurst(part.prepared, self._traffic)
        return self._bursts[part]

    def _note_fallback(self, what: str, reason: NnhalError, deadline_ns: int, **details: object) -> None:
        """Note that the fallback device takes over.

        Raises CancelledRunError if the run has been cancelled, and the reason itself if that is a deadline which has
        passed: no other device could keep it.
        """
        require_wanted(self._cancellation)
        if isinstance(reason, HalError) and reason.status in _MISSED and has_passed(deadline_ns):
            raise reason
        self._first = self._first or without_frames(reason)
        self.fell_back = True
        is_violation = isinstance(reason.__cause__, ProtocolError)
        log = _log.warning if is_violation or self._plan.fallback == Fallback.WARN else _log.info
        log(what, reason=str(reason), **details)

    def _note_injected(self, reason: NnhalError, number: int) -> None:
        """Note the faults that an error names; ``number`` is the step that failed, CLIENT_STEP if that is unknown."""
        device = self._plan.steps[number].device if number >= 0 else ""
        self.injected += tuple(InjectedFailure(name, number, device) for name in injected_faults_in(str(reason)))

    def _step_named_by(self, error: NnhalError) -> int:
        """The first step whose device an error names as that of a step; CLIENT_STEP if there is none."""
        steps, message = enumerate(self._plan.steps), str(error)
        named = (number for number, step in steps if any(step_on(step.device) + end in message for end in ": "))
        return next(named, CLIENT_STEP)


def _of_both(first: NnhalError, further: NnhalError) -> NnhalError:
    """The error of a run that failed, and failed again on the fallback device."""
    said = [error.message if isinstance(error, HalError) else str(error) for error in (first, further)]
    message = "; and without the device: ".join(said)
    if isinstance(further, HalError):
        return HalError(further.status, message)
    if isinstance(first, HalError):
        return HalError(first.status, message)
    kind = DeadObjectError if isinstance(further, DeadObjectError) else TransportError
    return kind(message)
