"""The HAL's executions: requests bound to memory, which run any number of times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar, Protocol, runtime_checkable

from nnhal.clock import now_ns
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.extensions.execution import hinted_priority
from nnhal.memory import MemoryGuard
from nnhal.resolved import ResolvedModel
from nnhal.types import (
    DEFAULT_LOOP_TIMEOUT_NS,
    NO_DEADLINE,
    NO_SPAN,
    Copy,
    ExecutionConfig,
    ExecutionResult,
    OutputShape,
    Priority,
    Span,
    Timing,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, describe, fits, fully_specified, is_extension
from nnhal_devices.backend import MemoryManager
from nnhal_devices.driver import DONE, Argument, AsynchronousWorkload, BoundWorkload, Control, Outcome, Workload
from nnhal_devices.host.memory.arguments import BoundArguments, BufferUses
from nnhal_devices.host.memory.counters import Counters
from nnhal_devices.host.memory.staging import NO_STAGING, Staged, Staging, copy_in, copy_out
from nnhal_devices.host.runs.launches import FencedExecutionCallback
from nnhal_devices.host.runs.scheduler import Scheduler, require_ahead

SUCCESS = ExecutionResult()
Conclude = Callable[[], tuple[ExecutionResult, Staging]]
Wanted = Callable[[], bool]
_PLAIN_SUCCESS = (SUCCESS, NO_STAGING)
_BRIEF_NS = 200_000
BURST = "Channel.Burst"
RUN_CHANNEL = "Channel.Run"
CHAIN = "Channel.Chain"
LAUNCH_CHANNEL = "Channel.Launch"
"""What executions may be asked for over, besides calls of gRPC."""


class RunOwner(Protocol):
    """The session that an execution belongs to."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        ...


@runtime_checkable
class AlteringWorkload(Protocol):
    """A workload that alters what clients are told of a run: one of a device that takes faults."""

    def altered(self, result: ExecutionResult, known: Sequence[Dimensions]) -> tuple[ExecutionResult, Sequence[Copy]]:
        """What is told instead, and notes of that; ``known`` are the dimensions of the bound outputs."""
        ...


class RunnableModel(Protocol):
    """What an execution needs of its prepared model, which it keeps alive."""

    model: ResolvedModel
    workload: Workload
    priority: Priority
    memory_manager: MemoryManager | None
    scheduler: Scheduler
    counters: Counters
    element_sizes: Mapping[int, int]
    guard: MemoryGuard | None

    @property
    def owner(self) -> RunOwner:
        """The session that it belongs to: executions of one owner are ordered among themselves."""
        ...

    @property
    def begins_at_once(self) -> bool:
        """Whether an execution would wait for nothing now."""
        ...


class Execution:
    """A request bound to memory. It runs any number of times, once at a time."""

    kind: ClassVar[str] = "execution"

    def __init__(self, prepared: RunnableModel, arguments: BoundArguments, config: ExecutionConfig) -> None:
        """Raises INVALID_ARGUMENT if the config gives an unknown priority."""
        hinted = hinted_priority(config)
        self.prepared = prepared
        self.priority = prepared.priority if hinted is None else hinted
        self.is_reserved = False
        """Whether it is held for a run that comes later."""
        self.uses = arguments.uses
        self.measures = config.measure_timing
        self.launched: FencedExecutionCallback | None = None
        """The last launch on a launch channel."""
        self.is_wanted: Wanted | None = None
        """Tells whether anybody waits for the run under way; None if that is all the same."""
        self.last_run_ns = 0
        """How long its last launched run, or its last run as a stage, took; 0 before the first."""
        self._slowest_ns = 0
        self._inputs = arguments.inputs
        self._outputs = arguments.outputs
        self._staged_inputs = arguments.staged_inputs
        self._staged_outputs = arguments.staged_outputs
        self._guarded = arguments.guarded
        self.pools = arguments.pools
        """Those that its arguments lie in."""
        self._plain = not (config.measure_timing or arguments.staged_inputs or arguments.staged_outputs)
        timeout = config.loop_timeout_duration_ns
        self._loop_timeout_ns = DEFAULT_LOOP_TIMEOUT_NS if timeout == -1 else timeout
        self._unbounded = Control(NO_DEADLINE, self._loop_timeout_ns)
        self._busy = threading.Lock()
        # Arguments in device memory are bound when it runs, and again when the buffers have changed.
        self._bound_versions: tuple[int, ...] | None = None
        self._bound_inputs = arguments.inputs  # held for the workload: a buffer that grows drops its smaller memory
        self._bound_outputs = arguments.outputs
        # The output shapes, if the buffers give dimensions that model and request leave unknown.
        self._known_from_buffers: tuple[OutputShape, ...] = ()
        self._last_outcome, self._last_result = DONE, SUCCESS
        self._altering = prepared.workload if isinstance(prepared.workload, AlteringWorkload) else None
        self._workload: BoundWorkload
        if arguments.uses is None:
            self._workload = prepared.workload.bind(arguments.inputs, arguments.outputs)

    @property
    def owner(self) -> object:
        """The session that it belongs to."""
        return self.prepared.owner

    @property
    def unwanted(self) -> str:
        """Why nobody waits for the run under way; empty if somebody does, or may."""
        if self.prepared.owner.is_over:
            return "the session is over"
        is_wanted = self.is_wanted
        return "" if is_wanted is None or is_wanted() else "its client does not wait for it any more"

    @property
    def slowest_ns(self) -> int:
        """How long its slowest run has taken; 0 if that says nothing of the run under way.

        It says nothing before the first run has succeeded, if the values of the inputs decide how much is computed, and
        if the run may wait for memory that others use.
        """
        is_bounded = self.prepared.memory_manager is None and not self.prepared.model.model.referenced
        return self._slowest_ns if is_bounded and self._unknown_output is None else 0

    @property
    def is_brief(self) -> bool:
        """Whether its last launched run, or its last run as a stage, took less than it takes to wake a thread."""
        return 0 < self.last_run_ns < _BRIEF_NS

    @property
    def copies_inputs(self) -> bool:
        """Whether inputs are staged before it runs or is enqueued."""
        return bool(self._staged_inputs)

    @property
    def staged(self) -> list[Staged]:
        """Its arguments that are copied in before a run or out after it."""
        return [*self._staged_inputs, *self._staged_outputs]

    def run(
        self, deadline_ns: int, is_wanted: Wanted | None = None, asked_over: str = ""
    ) -> tuple[ExecutionResult, Staging]:
        """Run it once. Raises HalError: GENERAL_FAILURE if it is running already.

        It is ended when ``is_wanted`` returns False, which other threads ask now and then. ``asked_over`` names the
        channel, for those who record it; empty for a call of gRPC.
        """
        if not self._busy.acquire(False):
            general_failure("the execution runs already; one at a time is allowed")
        self.is_wanted = is_wanted
        try:
            if self.uses is not None:
                self.uses.require_alive()
            result, staging = self.run_held(deadline_ns)
            if self._altering is not None:
                known = [output.dimensions for output in self._bound_outputs]
                result, notes = self._altering.altered(result, known)
                if notes:
                    staging = Staging() if staging is NO_STAGING else staging
                    staging.copies.extend(notes)
            return result, staging
        finally:
            self.is_wanted = None
            self._busy.release()

    def hold(self) -> None:
        """Reserve it for a run that comes later. Raises GENERAL_FAILURE if it is running or reserved already."""
        if not self._busy.acquire(False):
            general_failure("the execution runs already; one at a time is allowed")
        self.is_reserved = True

    def let_go(self) -> None:
        """Undo ``hold``, in any thread."""
        self.is_reserved = False
        self.is_wanted = None
        self._busy.release()

    def run_held(self, deadline_ns: int) -> tuple[ExecutionResult, Staging]:
        """Run it once, while it is held. Raises HalError."""
        control = self._unbounded if deadline_ns == NO_DEADLINE else self._bounded(deadline_ns)
        started = time.perf_counter_ns() if self.measures else 0
        prepared = self.prepared
        scheduler = prepared.scheduler
        try:
            scheduler.enter(self, control)
        except HalError:
            if self.uses is not None:
                self.uses.spoil()
            self._renew_if_cancelled(control)
            raise
        try:
            if prepared.memory_manager is not None:
                done = self._run_in_working_memory(prepared.memory_manager, control, started)
            elif self.uses is None:
                done = self._run(control, started)
            else:
                done = self._run_in_device_memory(self.uses, control, started)
        finally:
            ran_ns = scheduler.leave(self)
            self._renew_if_cancelled(control)
        if ran_ns > self._slowest_ns:
            self._slowest_ns = ran_ns
        return done

    @property
    def can_be_enqueued(self) -> bool:
        """Whether it goes to a command queue if it is enqueued."""
        return self.uses is None and isinstance(self._workload, AsynchronousWorkload) and not self._guarded

    def enqueue_held(self, deadline_ns: int) -> Conclude:
        """Enqueue a run on an asynchronous device, while it is held, and return what concludes it after a sync.

        On any other device, and with device memory, it has run when this returns. Raises HalError.
        """
        workload = None if self.uses is not None else self._workload
        if not isinstance(workload, AsynchronousWorkload) or self._guarded:
            done = self.run_held(deadline_ns)
            return lambda: done
        control = self._unbounded if deadline_ns == NO_DEADLINE else self._bounded(deadline_ns)
        started = time.perf_counter_ns()
        staging = NO_STAGING if self._plain else Staging()
        if self._staged_inputs:
            copy_in(self._staged_inputs, staging)
        entered, begun = now_ns(), time.perf_counter_ns()
        if control is self._unbounded:
            control = Control(NO_DEADLINE, self._loop_timeout_ns)  # the watchdog may outlast the run
        pending, scheduler = workload.enqueue(control), self.prepared.scheduler
        number = scheduler.note_enqueued(self, control)

        def conclude() -> tuple[ExecutionResult, Staging]:
            try:
                outcome = pending.result()
            finally:
                scheduler.forget_enqueued(number)
            # From when the queue began it: the wait for a sync is not the device's work.
            return self._measured(
                outcome, begun, started, staging, Span(entered) if outcome.span == NO_SPAN else outcome.span
            )

        return conclude

    def require_known_outputs(self) -> None:
        """Raise INVALID_ARGUMENT if an output is of unknown size: such a request cannot be fenced."""
        number = self._unknown_output
        if number is not None:
            known = describe(self._outputs[number].dimensions)
            invalid_argument(f"output {number} has dimensions {known}; a fenced execution needs all of them")

    @property
    def _unknown_output(self) -> int | None:
        """The first output of which not all dimensions are known before a run."""
        main = self.prepared.model.model.main
        for number, (index, argument) in enumerate(zip(main.output_indexes, self._outputs, strict=True)):
            code = main.operands[index].type
            if argument.data is not None and not is_extension(code) and not fully_specified(code, argument.dimensions):
                return number
        return None

    def _renew_if_cancelled(self, control: Control) -> None:
        """Have the next run not end because this one was cancelled: runs without a deadline share their limits."""
        if control.cancelled:
            self._unbounded = Control(NO_DEADLINE, self._loop_timeout_ns)

    def _bounded(self, deadline_ns: int) -> Control:
        if deadline_ns < NO_DEADLINE:
            invalid_argument(f"deadline {deadline_ns} ns, expected -1 or more")
        require_ahead(deadline_ns)
        return Control(deadline_ns, self._loop_timeout_ns)

    def _run_in_device_memory(
        self, uses: BufferUses, control: Control, started: int
    ) -> tuple[ExecutionResult, Staging]:
        self._bind(uses)  # if this fails, nothing has been written
        try:
            result, staging = self._run(control, started)
            if result.output_sufficient_size:
                if self._known_from_buffers and not result.output_shapes:
                    result = replace(result, output_shapes=self._known_from_buffers)
                shapes = result.output_shapes or self._bound_outputs
                uses.wrote([shape.dimensions for shape in shapes])
            else:
                self._require_room(uses, result)
                uses.spoil()
        except BaseException:
            uses.spoil()
            raise
        return result, staging

    def _run_in_working_memory(
        self, manager: MemoryManager, control: Control, started: int
    ) -> tuple[ExecutionResult, Staging]:
        manager.acquire()
        try:
            if self.uses is None:
                return self._run(control, started)
            return self._run_in_device_memory(self.uses, control, started)
        finally:
            manager.release()

    def _bind(self, uses: BufferUses) -> None:
        """Bind the workload to the buffers as they are now."""
        versions = uses.versions
        if versions == self._bound_versions:
            uses.require_ready()
            return
        self._bound_versions, self._last_outcome = None, DONE
        inputs, outputs = list(self._inputs), list(self._outputs)
        uses.fill(inputs, outputs)
        self._workload = self.prepared.workload.bind(inputs, outputs)
        self._bound_inputs, self._bound_outputs = inputs, outputs
        differ = any(a.dimensions != b.dimensions for a, b in zip(outputs, self._outputs, strict=True))
        self._known_from_buffers = tuple(OutputShape(a.dimensions) for a in outputs) if differ else ()
        self._bound_versions = versions

    def _require_room(self, uses: BufferUses, result: ExecutionResult) -> None:
        for number, shape in enumerate(result.output_shapes):
            if not shape.is_sufficient and uses.is_output(number):
                general_failure(f"output {number} of {describe(shape.dimensions)} does not fit its device buffer")

    def _run(self, control: Control, started: int) -> tuple[ExecutionResult, Staging]:
        if not self._guarded or self.prepared.guard is None:
            return self._run_workload(control, started)
        with self.prepared.guard.use(self._guarded):
            return self._run_workload(control, started)

    def _run_workload(self, control: Control, started: int) -> tuple[ExecutionResult, Staging]:
        if self._plain:
            outcome = self._workload.run(control)
            if outcome is DONE:
                return _PLAIN_SUCCESS
            return self._conclude(self._with_room(outcome, control), NO_STAGING)
        entered, staging = now_ns(), Staging()
        if self._staged_inputs:
            copy_in(self._staged_inputs, staging)
        begun = time.perf_counter_ns()
        outcome = self._with_room(self._workload.run(control), control)
        return self._measured(outcome, begun, started, staging, Span(entered))

    def _measured(
        self, outcome: Outcome, begun: int, started: int, staging: Staging, span: Span
    ) -> tuple[ExecutionResult, Staging]:
        """Conclude a run and add how long it took. It began at ``begun``, the call at ``started``, in ns.

        ``span`` is the time of the run; without an end, it ends now.
        """
        took = time.perf_counter_ns() - begun
        result, staging = self._conclude(outcome, staging)
        if self.measures and result.output_sufficient_size:
            staging.span = span if span.ended_ns >= 0 else Span(span.started_ns, now_ns())
            # Modelled time replaces the emulator's own in the driver's time too, which is thus never the shorter one.
            # What the driver has copied counts as driver's time, as what the host has staged does.
            copying = sum(copy.ended_ns - copy.started_ns for copy in outcome.copies if not copy.injected)
            on_device = max(took - copying, 0) if outcome.time_on_device_ns is None else outcome.time_on_device_ns
            in_driver = time.perf_counter_ns() - started - took + copying + on_device
            result = replace(result, timing=Timing(on_device, in_driver))
        return result, staging

    def _with_room(self, outcome: Outcome, control: Control) -> Outcome:
        """The outcome, or that of a second run if a device buffer of unknown size had to grow first."""
        if self.uses is None or not outcome.dimensions or not self.uses.make_room(outcome.dimensions):
            return outcome
        self._bind(self.uses)
        again = self._workload.run(control)
        return replace(again, copies=outcome.copies + again.copies) if outcome.copies else again

    def _conclude(self, outcome: Outcome, staging: Staging) -> tuple[ExecutionResult, Staging]:
        """Copy staged outputs out if all outputs fit, and return the shapes. What the driver has copied is counted."""
        result = self._result_of(outcome) if outcome.dimensions else SUCCESS
        if outcome.copies:
            staging = Staging() if staging is NO_STAGING else staging
            for copy in outcome.copies:
                staging.add(copy)
            self.prepared.counters.add_copies(outcome.copies)
        if self._staged_outputs and result.output_sufficient_size:
            copy_out(self._staged_outputs, staging)
        if staging is not NO_STAGING:
            self.prepared.counters.add_staged(staging.bytes)
        return result, staging

    def _result_of(self, outcome: Outcome) -> ExecutionResult:
        """The result of an outcome with dimensions: the same object for the same outcome, whose answer is made once."""
        if outcome is not self._last_outcome:
            shapes = self._shapes(outcome)
            self._last_result = ExecutionResult(all(shape.is_sufficient for shape in shapes), shapes)
            self._last_outcome = outcome
        return self._last_result

    def _shapes(self, outcome: Outcome) -> tuple[OutputShape, ...]:
        return tuple(
            self._shape(number, dimensions, argument)
            for number, (dimensions, argument) in enumerate(zip(outcome.dimensions, self._bound_outputs, strict=False))
        )

    def _shape(self, number: int, dimensions: Dimensions, argument: Argument) -> OutputShape:
        if argument.dimensions and not fits(dimensions, argument.dimensions):
            general_failure(
                f"output {number} has dimensions {list(dimensions)}, model and request say "
                f"{describe(argument.dimensions)}"
            )
        main = self.prepared.model.model.main
        code = main.operands[main.output_indexes[number]].type
        if argument.data is None:
            return OutputShape(dimensions)
        element = self.prepared.element_sizes.get(code, 0) if is_extension(code) else ELEMENT_TYPES[code].itemsize
        return OutputShape(dimensions, element * prod(dimensions) <= len(argument.data))
