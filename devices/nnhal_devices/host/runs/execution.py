"""The HAL's executions: requests bound to memory, which run any number of times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from nnhal.codec.lengths import Lengths
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.extensions.execution import hinted_priority
from nnhal.types import (
    DEFAULT_LOOP_TIMEOUT_NS,
    NO_DEADLINE,
    Copy,
    ExecutionConfig,
    ExecutionResult,
)
from nnhal.types.layout import Dimensions, describe
from nnhal_devices.driver import Control
from nnhal_devices.host.memory.arguments import BoundArguments
from nnhal_devices.host.memory.staging import NO_STAGING, Staged, Staging, UsedPool
from nnhal_devices.host.runs.bound_run import BoundRun, Conclude, RunnableModel
from nnhal_devices.host.runs.launches import FencedExecutionCallback
from nnhal_devices.host.runs.scheduler import require_ahead

Wanted = Callable[[], bool]
_BRIEF_NS = 200_000
BURST = "Channel.Burst"
RUN_CHANNEL = "Channel.Run"
CHAIN = "Channel.Chain"
LAUNCH_CHANNEL = "Channel.Launch"
"""What executions may be asked for over, besides calls of gRPC."""


@runtime_checkable
class AlteringWorkload(Protocol):
    """A workload that alters what clients are told of a run: one of a device that takes faults."""

    def altered(self, result: ExecutionResult, known: Sequence[Dimensions]) -> tuple[ExecutionResult, Sequence[Copy]]:
        """Return what is reported instead, and notes of that; ``known`` are the dimensions of the bound outputs."""
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
        """True if it is held for a run that comes later."""
        self.uses = arguments.uses
        self.measures = config.measure_timing
        self.launched: FencedExecutionCallback | None = None
        """The last launch on a launch channel."""
        self.is_wanted: Wanted | None = None
        """Tells whether anybody waits for the run under way; None if nobody tells."""
        self.last_run_ns = 0
        """The time that its last launched run, or its last run as a stage, took; 0 before the first."""
        self._slowest_ns = 0
        self._arguments = arguments
        timeout = config.loop_timeout_duration_ns
        self._loop_timeout_ns = DEFAULT_LOOP_TIMEOUT_NS if timeout == -1 else timeout
        self._unbounded = Control(NO_DEADLINE, self._loop_timeout_ns)
        self._busy = threading.Lock()
        self._altering = prepared.workload if isinstance(prepared.workload, AlteringWorkload) else None
        self._bound = BoundRun(prepared, arguments, self.measures)

    @property
    def owner(self) -> object:
        """The session that it belongs to."""
        return self.prepared.owner

    @property
    def unwanted(self) -> str:
        """Return why nobody waits for the run under way; empty if somebody does, or may."""
        if self.prepared.owner.is_over:
            return "the session is over"
        is_wanted = self.is_wanted
        return "" if is_wanted is None or is_wanted() else "its client does not wait for it any more"

    @property
    def slowest_ns(self) -> int:
        """Return how long its slowest run has taken; 0 if that says nothing of the run under way.

        It says nothing before the first run has succeeded, if the values of the inputs decide how much is computed, and
        if the run may wait for memory that others use.
        """
        is_bounded = self.prepared.memory_manager is None and not self.prepared.model.model.referenced
        return self._slowest_ns if is_bounded and self._bound.unknown_output() is None else 0

    @property
    def is_brief(self) -> bool:
        """True if its last launched run, or its last run as a stage, took less than it takes to wake a thread."""
        return 0 < self.last_run_ns < _BRIEF_NS

    @property
    def copies_inputs(self) -> bool:
        """Return whether inputs are staged before it runs or is enqueued."""
        return bool(self._arguments.staged_inputs)

    @property
    def staged(self) -> list[Staged]:
        """Its arguments that are copied in before a run or out after it."""
        return [*self._arguments.staged_inputs, *self._arguments.staged_outputs]

    @property
    def pools(self) -> Sequence[UsedPool]:
        """Return those that its arguments lie in."""
        return self._arguments.pools

    def run(
        self, deadline_ns: int, is_wanted: Wanted | None = None, asked_over: str = "", lengths: Lengths = ()
    ) -> tuple[ExecutionResult, Staging]:
        """Run it once. Raises HalError: GENERAL_FAILURE if it is running already.

        It is ended when ``is_wanted`` returns False, which other threads ask now and then. ``asked_over`` names the
        channel, for those who record it; empty for a call of gRPC. ``lengths`` are the dimensions of inputs.
        """
        if not self._busy.acquire(False):
            general_failure("the execution runs already; one at a time is allowed")
        self.is_wanted = is_wanted
        try:
            if self.uses is not None and not self._bound.is_settled:
                self.uses.require_alive()
            self._bound.resize(lengths)
            result, staging = self.run_held(deadline_ns)
            if self._altering is not None:
                result, notes = self._altering.altered(result, self._bound.output_dimensions)
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
        self._bound.resize(())
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
        if self.uses is not None and not self._bound.is_settled:
            self.uses.require_written()
        scheduler = self.prepared.scheduler
        try:
            scheduler.enter(self, control)
        except HalError:
            if self.uses is not None:
                self.uses.spoil()
            if control.cancelled:
                self._renew()
            raise
        try:
            done = self._bound.run(control, started)
        finally:
            ran_ns = scheduler.leave(self)
            if control.cancelled:
                self._renew()
        if ran_ns > self._slowest_ns:
            self._slowest_ns = ran_ns
        return done

    @property
    def can_be_enqueued(self) -> bool:
        """Return whether it goes to a command queue if it is enqueued."""
        return self._bound.queued_workload is not None

    def enqueue_held(self, deadline_ns: int) -> Conclude:
        """Enqueue a run on an asynchronous device, while it is held, and return what concludes it after a sync.

        On any other device, and with device memory, it has run when this returns. Raises HalError.
        """
        workload = self._bound.queued_workload
        if workload is None:
            done = self.run_held(deadline_ns)
            return lambda: done
        if deadline_ns == NO_DEADLINE:
            control = Control(NO_DEADLINE, self._loop_timeout_ns)  # the watchdog may outlast the run
        else:
            control = self._bounded(deadline_ns)
        conclude = self._bound.enqueue(workload, control, time.perf_counter_ns())
        scheduler = self.prepared.scheduler
        number = scheduler.note_enqueued(self, control)

        def ended() -> tuple[ExecutionResult, Staging]:
            try:
                return conclude()
            finally:
                scheduler.forget_enqueued(number)

        return ended

    def require_known_outputs(self, but_growing: bool = False) -> None:
        """Raise INVALID_ARGUMENT if an output is of unknown size, ``but_growing`` ones: it cannot be fenced then."""
        number = self._bound.unknown_output(but_growing)
        if number is not None:
            known = describe(self._arguments.outputs[number].dimensions)
            invalid_argument(f"output {number} has dimensions {known}; a fenced execution needs all of them")

    def _renew(self) -> None:
        """Have the next run not end because this one was cancelled: runs without a deadline share their limits."""
        self._unbounded = Control(NO_DEADLINE, self._loop_timeout_ns)

    def _bounded(self, deadline_ns: int) -> Control:
        if deadline_ns < NO_DEADLINE:
            invalid_argument(f"deadline {deadline_ns} ns, expected -1 or more")
        require_ahead(deadline_ns)
        return Control(deadline_ns, self._loop_timeout_ns)
