"""A prepared model's workload bound to the memory of a request: one run of it, from copying in to copying out.

Arguments in device memory are bound when it runs, and again when their buffers have changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.codec.lengths import Lengths
from nnhal.errors import general_failure, invalid_argument
from nnhal.memory import MemoryGuard
from nnhal.resolved import ResolvedModel
from nnhal.types import NO_SPAN, ExecutionResult, OutputShape, Priority, Span, Timing
from nnhal.types.layout import Dimensions, describe
from nnhal_devices.backend import MemoryManager
from nnhal_devices.driver import (
    DONE,
    Argument,
    AsynchronousWorkload,
    BoundWorkload,
    Control,
    Outcome,
    ResizableWorkload,
    Workload,
)
from nnhal_devices.host.memory.arguments import BoundArguments, BufferUses, sized_argument
from nnhal_devices.host.memory.counters import Counters
from nnhal_devices.host.memory.staging import NO_STAGING, Staging, copy_in, copy_out
from nnhal_devices.host.runs.run_results import SUCCESS, RunResults
from nnhal_devices.host.runs.scheduler import Scheduler

Conclude = Callable[[], tuple[ExecutionResult, Staging]]
_PLAIN_SUCCESS = (SUCCESS, NO_STAGING)


class RunOwner(Protocol):
    """The session that an execution belongs to."""

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        ...


class RunnableModel(Protocol):
    """Parts of its prepared model that an execution needs, which it keeps alive."""

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
        """Return whether an execution would wait for nothing now."""
        ...


class _Settled(NamedTuple):
    """A run that has succeeded. The next one needs no check of its buffers if none has changed."""

    changes: int
    """``BufferUses.changes`` before the run."""
    ended: ExecutionResult
    """How the workload ended."""
    result: ExecutionResult
    """The client's answer."""


class BoundRun:
    """Work of an execution once it is admitted. One run at a time."""

    def __init__(self, prepared: RunnableModel, arguments: BoundArguments, measures: bool) -> None:
        """Bind the workload, unless arguments lie in device memory. ``measures``: whether runs are timed."""
        self._uses = arguments.uses
        self._measures = measures
        self._arguments = arguments
        self._model_workload = prepared.workload
        self._memory_manager = prepared.memory_manager
        self._counters = prepared.counters
        self._guard = prepared.guard if arguments.guarded else None
        self._is_direct = self._memory_manager is None and self._uses is None and self._guard is None
        self._plain = not (measures or arguments.staged_inputs or arguments.staged_outputs)
        self._element_sizes = prepared.element_sizes
        self._results = RunResults(prepared.model, prepared.element_sizes)
        self._bound_versions: tuple[int, ...] | None = None
        self._settled: _Settled | None = None
        self._lengths: Lengths | None = ()
        main = prepared.model.model.main
        self._inputs = [main.operands[index] for index in main.input_indexes]
        self._bound_inputs = arguments.inputs  # held for the workload: a buffer that grows drops its smaller memory
        self._bound_outputs = arguments.outputs
        # The output shapes, if the buffers give dimensions that model and request leave unknown.
        self._known_from_buffers: tuple[OutputShape, ...] = ()
        self._bound_storages: Sequence[Bytes] = ()
        """The memory of the device buffers that the workload is bound to, in the order of the uses."""
        self._workload: BoundWorkload
        self._resizable: ResizableWorkload | None = None
        if self._uses is None:
            self._bind_workload(arguments.inputs, arguments.outputs)

    @property
    def is_settled(self) -> bool:
        """Return whether its buffers are as they were before the last run that succeeded."""
        return self._settled is not None and self._uses is not None and self._settled.changes == self._uses.changes

    @property
    def lengths(self) -> Lengths:
        """The dimensions of inputs that the next run is for."""
        return self._lengths or ()

    def resize(self, lengths: Lengths) -> None:
        """Have the next run be for these dimensions of inputs. Raises HalError; the next run binds again then."""
        if lengths is self._lengths:
            return
        self._lengths, self._bound_versions, self._settled = None, None, None
        if self._uses is None:
            inputs = self._sized(self._arguments.inputs, lengths)
            self._results.forget()
            if self._resizable is None:
                self._bind_workload(inputs, self._bound_outputs)
            else:
                self._resizable.resize([argument.dimensions for argument in inputs])
        self._lengths = lengths

    def _sized(self, inputs: Sequence[Argument], lengths: Lengths) -> list[Argument]:
        """The inputs of a run of these lengths. Raises INVALID_ARGUMENT."""
        found = list(inputs)
        for position, dimensions in lengths:
            if position >= len(found):
                invalid_argument(f"lengths of input {position} of {len(found)}")
            operand = self._inputs[position]
            found[position] = sized_argument(found[position], dimensions, operand, self._element_sizes, position)
            if 0 in dimensions:
                self._require_takes_empty(position, dimensions)
        return found

    def _require_takes_empty(self, position: int, dimensions: Dimensions) -> None:
        if not takes_empty(self._model_workload):
            invalid_argument(f"input {position} is empty, {list(dimensions)}, expected elements for this driver")

    @property
    def output_dimensions(self) -> list[Dimensions]:
        """The dimensions of the outputs that are bound now, 0 for those that are unknown."""
        return [output.dimensions for output in self._bound_outputs]

    def unknown_output(self, but_growing: bool = False) -> int | None:
        """Return the first output with a dimension that is unknown before a run; None if there is none, ``but_growing``
        ones, which lie in buffers that grow.
        """
        growing = self._uses.growing if but_growing and self._uses is not None else ()
        return self._results.unknown_output(self._arguments.outputs, growing)

    @property
    def queued_workload(self) -> AsynchronousWorkload | None:
        """Return what its runs are enqueued with; None if they do not go to a command queue."""
        if self._uses is not None or self._arguments.guarded or not isinstance(self._workload, AsynchronousWorkload):
            return None
        return self._workload

    def run(self, control: Control, started: int) -> tuple[ExecutionResult, Staging]:
        """Run it. Raises HalError. ``started`` says when the call came, in ns of ``perf_counter``, if it measures."""
        if self._is_direct:
            return self._run_workload(control, started)
        manager = self._memory_manager
        if manager is None:
            return self._run_in_memory(control, started)
        manager.acquire()
        try:
            return self._run_in_memory(control, started)
        finally:
            manager.release()

    def enqueue(self, workload: AsynchronousWorkload, control: Control, started: int) -> Conclude:
        """Enqueue a run with its ``queued_workload``; return what concludes it after a sync. Raises HalError."""
        staging = NO_STAGING if self._plain else Staging()
        if self._arguments.staged_inputs:
            copy_in(self._arguments.staged_inputs, staging)
        entered, begun = now_ns(), time.perf_counter_ns()
        pending = workload.enqueue(control)

        def conclude() -> tuple[ExecutionResult, Staging]:
            outcome = pending.result()
            # From when the queue began it: the wait for a sync is not the device's work.
            span = Span(entered) if outcome.span == NO_SPAN else outcome.span
            return self._measured(outcome, begun, started, staging, span)

        return conclude

    def _run_in_memory(self, control: Control, started: int) -> tuple[ExecutionResult, Staging]:
        uses = self._uses
        if uses is None:
            return self._run_guarded(control, started)
        changes, settled = uses.changes, self._settled
        if settled is None or settled.changes != changes:
            settled = None
            self._bind(uses)  # if this fails, nothing has been written
        try:
            ended, staging = self._run_guarded(control, started)
            if settled is not None and ended is settled.ended and uses.changes == changes:
                return settled.result, staging
            result = ended
            if result.output_sufficient_size:
                if self._known_from_buffers and not result.output_shapes:
                    result = replace(result, output_shapes=self._known_from_buffers)
                shapes = result.output_shapes or self._bound_outputs
                uses.wrote([shape.dimensions for shape in shapes])
                self._settled = _Settled(changes, ended, result)
            else:
                _require_room(uses, result)
                uses.spoil()
        except BaseException:
            uses.spoil()
            raise
        return result, staging

    def _bind_workload(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> None:
        self._workload = workload = self._model_workload.bind(inputs, outputs)
        self._resizable = workload if isinstance(workload, ResizableWorkload) else None
        self._bound_inputs, self._bound_outputs = list(inputs), list(outputs)

    def _bind(self, uses: BufferUses) -> None:
        """Bind the workload to the buffers as they are now."""
        versions = uses.versions
        if versions == self._bound_versions:
            uses.require_ready()
            return
        self._bound_versions = None
        self._results.forget()
        if self._resizable is not None and not self._lengths:
            found = uses.dimensions_in(self._bound_storages)
            if found is not None:
                sized = [argument.dimensions for argument in self._arguments.inputs]
                for position, dimensions in found:
                    sized[position] = dimensions
                self._resizable.resize(sized)
                self._bound_versions = versions
                return
        inputs, outputs = list(self._arguments.inputs), list(self._arguments.outputs)
        lengths = self._lengths or ()
        uses.fill(inputs, outputs, [position for position, _ in lengths])
        for position in uses.empty:
            self._require_takes_empty(position, inputs[position].dimensions)
        inputs = self._sized(inputs, lengths)
        self._bound_storages = uses.storages
        self._bind_workload(inputs, outputs)
        differ = any(a.dimensions != b.dimensions for a, b in zip(outputs, self._arguments.outputs, strict=True))
        self._known_from_buffers = tuple(OutputShape(a.dimensions) for a in outputs) if differ else ()
        self._bound_versions = versions

    def _run_guarded(self, control: Control, started: int) -> tuple[ExecutionResult, Staging]:
        if self._guard is None:
            return self._run_workload(control, started)
        with self._guard.use(self._arguments.guarded):
            return self._run_workload(control, started)

    def _run_workload(self, control: Control, started: int) -> tuple[ExecutionResult, Staging]:
        if self._plain:
            outcome = self._workload.run(control)
            if outcome is DONE:
                return _PLAIN_SUCCESS
            return self._conclude(self._with_room(outcome, control), NO_STAGING)
        entered, staging = now_ns(), Staging()
        if self._arguments.staged_inputs:
            copy_in(self._arguments.staged_inputs, staging)
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
        if self._measures and result.output_sufficient_size:
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
        if self._uses is None or not outcome.dimensions or not self._uses.make_room(outcome.dimensions):
            return outcome
        self._bind(self._uses)
        again = self._workload.run(control)
        return replace(again, copies=outcome.copies + again.copies) if outcome.copies else again

    def _conclude(self, outcome: Outcome, staging: Staging) -> tuple[ExecutionResult, Staging]:
        """Copy staged outputs out if all outputs fit, and return the shapes. What the driver has copied is counted."""
        result = self._results.of(outcome, self._bound_outputs)
        if outcome.copies:
            staging = Staging() if staging is NO_STAGING else staging
            for copy in outcome.copies:
                staging.add(copy)
            self._counters.add_copies(outcome.copies)
        if self._arguments.staged_outputs and result.output_sufficient_size:
            copy_out(self._arguments.staged_outputs, staging)
        if staging is not NO_STAGING:
            self._counters.add_staged(staging.bytes)
        return result, staging


def takes_empty(workload: Workload) -> bool:
    """Return whether a driver's workload takes inputs with a length of 0, as it says itself."""
    return bool(getattr(workload, "takes_empty", False))


def _require_room(uses: BufferUses, result: ExecutionResult) -> None:
    for number, shape in enumerate(result.output_shapes):
        buffer = None if shape.is_sufficient else uses.output(number)
        if buffer is not None:
            general_failure(
                f"output {number} of {describe(shape.dimensions)} does not fit its device buffer{buffer.limits}"
            )
