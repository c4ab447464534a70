"""A loaded model that is bound to memory, and its runs by the plan that is in force."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from nnhal.errors import HalError, NnhalError, general_failure, invalid_argument
from nnhal.fence import Fence
from nnhal.types import NO_DEADLINE, NO_HINTS, ErrorStatus, ExecutionConfig, Hints, Memory, RunUsage
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.memory.bindings import Bindings, TensorBinding, UsedMemory, bindings_of
from nnhal_service.runtime.memory.state import CarriedState
from nnhal_service.runtime.plan.active_plan import ActivePlan
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.run.bound_plan import BoundPlan
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError, RunCancellation
from nnhal_service.runtime.run.chained import Launched
from nnhal_service.runtime.run.dimensioned_binding import DimensionedBinding, PlannedBinding
from nnhal_service.runtime.run.engine import FINAL_ERRORS
from nnhal_service.runtime.run.launched_run import LaunchedRun, LaunchMethods, start_launched_run
from nnhal_service.runtime.run.ledger import Ledgers
from nnhal_service.runtime.run.reports import OutputReport, RunReport, RunWatcher
from nnhal_service.runtime.run.run_channel import DirectRuns, RunChannelEnd
from nnhal_service.runtime.run.run_state import Begun, ContextMemories, RunInFlight, release_frames
from nnhal_service.runtime.run.steps import OneExchange, Outcome
from nnhal_service.runtime.run.weak_calls import weakly
from nnhal_service.unloaded import UnloadedError

DRAIN_SECONDS = 5.0
"""How long closing waits for a run in flight. A longer one is cancelled."""
_STOP_SECONDS = 2.0
"""How long closing then waits for the cancelled run. A longer one releases the context at its end."""
_MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)
_REPLAN_SECONDS = 5.0
"""How long a run that has failed waits for a plan without the device that is gone."""
_log = get_logger(__name__)


class ExecutionContext:
    """A loaded model that is bound to memory. It runs once at a time.

    After re-planning, the next run is by the new plan, in the same memory of the client. A context that is bound to
    memory of a domain stays with the plan that the model was loaded with, since that memory was allocated for it.
    """

    def __init__(
        self,
        planned: PlannedBinding,
        inputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure_timing: bool,
        loop_timeout_duration_ns: int = -1,
        hints: Hints = NO_HINTS,
        watcher: RunWatcher | None = None,
        way: DimensionedBinding | None = None,
        state: CarriedState | None = None,
    ) -> None:
        """``watcher`` is told of every run. ``way`` leads to a plan for the dimensions that are bound. ``state`` is the
        state of a model that has one: the context keeps to its plan.

        Raises HalError if the bindings are not valid or a device refuses, TransportError if one is gone.
        """
        self._busy = threading.Lock()
        self._closing = self._closed = self._is_unloaded = False
        self._inputs, self._pools, self._way = inputs, pools, way
        self._measure = measure_timing
        self._config = ExecutionConfig(measure_timing, loop_timeout_duration_ns, hints.values, hints.extension_names)
        self._watcher = watcher
        self._cancellation = RunCancellation()
        self._current: Cancellation = self._cancellation
        """That of the run in flight, or of the last run."""
        self._since_ns, self._deadline_ns, self._is_launched = 0, NO_DEADLINE, False
        self._direct_runs = DirectRuns()
        self._ledgers = Ledgers()
        has_memory = any(binding.memory is not None for binding in (*inputs, *planned.outputs))
        self._state = state
        self._stays = state is not None or has_memory
        self._has_only_state = state is not None and not has_memory
        """Whether all memory of domains that it uses is its state."""
        self._declined: PreparedPlan | None = None
        self._direct_plan: PreparedPlan | None = None
        self._planned = planned
        try:
            for binding in (*inputs, *planned.outputs):
                if binding.memory is not None:
                    binding.memory.require_alive()
            self._turns = self._turns_of(state) if state is not None else ()
            if self._turns:
                self._bindings, self._bound = self._turns[0]
            else:
                self._bindings, self._bound = self._bind_to(planned, planned.plans.hold(self._stays))
        except BaseException:
            planned.ended()
            raise
        self._used = UsedMemory(self._bindings.inputs, self._bindings.outputs, self._bound.dimensions)
        if state is not None:
            state.use()

    @property
    def plans(self) -> ActivePlan:
        """The plans that it follows."""
        return self._planned.plans

    @property
    def settled(self) -> Sequence[OutputReport]:
        """The dimensions of outputs that the model leaves open and those of the inputs determine."""
        return self._planned.settled

    @property
    def insufficient(self) -> Sequence[OutputReport]:
        """The dimensions of such outputs for which there is too little memory, if a plan was prepared for them."""
        return self._planned.insufficient

    @property
    def state(self) -> CarriedState | None:
        """The state of a model that has one."""
        return self._state

    def reset_state(self) -> None:
        """Have the next run begin with the initial values of the state.

        Raises GENERAL_FAILURE during a run, INVALID_ARGUMENT if the model has no state.
        """
        if self._state is None:
            invalid_argument("the model has no state")
        self._occupy()
        try:
            self._state.forget()
        finally:
            self._leave()

    @property
    def prepared(self) -> PreparedPlan:
        """The plan of the last run, or of the next one before the first."""
        return self._bound.prepared

    def run(self, deadline_ns: int = NO_DEADLINE, cancellation: Cancellation | None = None) -> RunReport:
        """Run all steps. Raises HalError, or TransportError if a device is gone.

        After a cancellation no other step begins, and CancelledRunError is raised when those that have begun end.
        Operators see it unless its ``cancellation`` is that of a request, which they see instead.
        """
        self._enter()
        if cancellation is None or isinstance(cancellation, RunCancellation):
            self._since_ns, self._deadline_ns = time.perf_counter_ns(), deadline_ns
        if cancellation is None:
            cancellation = self._cancellation
            if cancellation.cancelled:  # too late for an earlier run
                cancellation = self._cancellation = RunCancellation()
        self._current = cancellation

        def attempt(deadline_ns: int) -> Outcome:
            return self._bound.run(deadline_ns, cancellation)

        try:
            return self._run(attempt, deadline_ns, attempt)
        except CancelledRunError as error:
            if self._closing:
                raise self._over() from error
            raise
        finally:
            self._leave()

    def start(self, deadline_ns: int = NO_DEADLINE, cancellation: Cancellation | None = None) -> StartedRun | None:
        """Start a run and return at once, if it is one exchange with a device; else None, and ``run`` runs it.

        Raises HalError if the context is running, or closed.
        """
        self._occupy()
        self._current = cancellation or self._cancellation
        try:
            exchange = None
            is_behind = self._way is not None and self._way.is_ready
            is_ready = self._used.is_empty
            if self._state is not None and self._has_only_state:
                is_ready = self._state.is_ready
            if not is_behind and self._is_current() and is_ready:
                begun = self._begin()
                exchange = self._bound.start(deadline_ns, cancellation, self._has_only_state)
            if exchange is not None:
                return StartedRun(self, exchange, begun, deadline_ns, cancellation)
        except BaseException:
            self._leave()
            raise
        self._leave()
        return None

    def launch(
        self, fences: Sequence[Fence], deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
    ) -> LaunchedRun:
        """Launch a run that begins when the fences have signalled and may take ``duration_ns`` from then on.

        Raises as ``run`` does if it cannot be launched and may not run on the CPU instead.
        """
        self._enter()
        self._since_ns, self._deadline_ns, self._is_launched = time.perf_counter_ns(), deadline_ns, True
        cancellation = self._current = Cancellation()
        try:
            ways = self._ways(cancellation)
        except BaseException as error:
            self._launched_ended()
            self._raise_unloaded(error)
            raise
        try:
            return start_launched_run(ways, fences, deadline_ns, duration_ns, cancellation)
        except NnhalError as error:
            self._raise_unloaded(error)
            raise

    @property
    def running(self) -> RunInFlight | None:
        """The run in flight, unless it was started or has a cancellation of its own; None if there is none."""
        if not self._busy.locked() or not self._since_ns:
            return None
        return RunInFlight(self._since_ns, self._deadline_ns, self._is_launched)

    def cancel(self, running: RunInFlight) -> bool:
        """Cancel a run, which ends as soon as its devices end it; returns False if it has ended."""
        cancellation = self._current
        if not self._busy.locked() or self.running != running:
            return False
        cancellation.cancel()
        return True

    @property
    def memories(self) -> ContextMemories:
        """The memory that it uses at this moment."""
        return ContextMemories(tuple(self._bindings.pools), self._bound.arena)

    @property
    def lasting_devices(self) -> frozenset[str]:
        """The devices that it keeps to whatever is planned, since it is bound to memory of a domain."""
        return self._bound.prepared.devices if self._stays else frozenset()

    def leave_direct_runs(self, plan: PreparedPlan) -> None:
        """Close the run channel unless it is to the steps of ``plan``, so that the client's next run is by that."""
        if not self._stays and self._direct_plan is not plan and self.has_run_channel:
            self.close_run_channel()

    def open_run_channel(self) -> RunChannelEnd | None:
        """Open a run channel to the steps; None if they cannot be wired, or a run is more than its steps.

        It stays open until the context is closed, or bound again after its device came back or after re-planning.
        Raises as ``run`` does.
        """
        self._enter()
        try:
            path = self._bound.direct_path() if self._used.is_empty else None
            if path is None:
                return None
            self._direct_plan = self._bound.prepared
            return self._direct_runs.open(path)
        finally:
            self._leave()

    @property
    def direct_plan(self) -> PreparedPlan:
        """The plan behind the latest run channel; that of the last run if there was no channel."""
        return self._direct_plan or self.prepared

    @property
    def lengths(self) -> Mapping[int, int]:
        """Bytes of the values that have memory of their own, by operand."""
        return self._bound.lengths()

    @property
    def has_run_channel(self) -> bool:
        """Whether a run channel is open."""
        return self._direct_runs.is_open

    def close_run_channel(self) -> None:
        """Close the run channel before the context is closed; harmless if none is open.

        Afterwards no device that answers is at work on a direct run of several steps.
        """
        self._report_direct_runs(self._direct_runs.close())

    def count_direct_runs(self, seconds: float) -> bool:
        """Report direct runs to the watcher; returns False if the device does not answer within ``seconds``."""
        usage = self._direct_runs.take_usage(seconds)
        self._report_direct_runs(usage or RunUsage())
        return usage is not None

    @property
    def items(self) -> int:
        """The length of the first input's first axis; 1 if it has none."""
        for tensor in self._bound.prepared.imported.inputs[:1]:
            return (*self._bound.dimensions[tensor.operand], 1)[0] or 1
        return 1

    def close(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Release it when a run in flight has ended; harmless if repeated.

        A run that has not ended within ``drain_seconds`` is cancelled. If it does not end soon, or at once if
        ``drain_seconds`` are 0, the run releases the context at its end: until then devices may use its memory.
        """
        self._closing = True
        if not self._busy.acquire(timeout=drain_seconds):
            self._current.cancel()
            if not self._busy.acquire(timeout=_STOP_SECONDS if drain_seconds else 0):
                if drain_seconds:
                    _log.warning("a cancelled run has not ended; what it uses is released when it ends")
                return
        try:
            self._close()
        finally:
            self._busy.release()

    def unload(self, drain_seconds: float) -> None:
        """Release it since its model is unloaded, which runs say that fail from now on; see ``close``."""
        self._is_unloaded = True
        self.close(drain_seconds)

    def _enter(self) -> None:
        """Begin a run, by the plan in force. Raises GENERAL_FAILURE if another run has not ended."""
        self._occupy()
        try:
            if self._way is not None and self._way.is_ready:
                self._take(self._way)
            if not self._is_current():
                self._follow()
        except BaseException:
            self._leave()
            raise

    def _occupy(self) -> None:
        """Keep others from running. Raises HalError if another run has not ended, or the context is closed."""
        if not self._busy.acquire(blocking=False):
            if self._is_unloaded:
                raise UnloadedError
            general_failure("the binding is running already; one run at a time is allowed")
        if self._closing:
            self._leave()
            raise self._over()
        if self._state is not None:
            self._bindings, self._bound = self._turns[self._state.turn]
            self._used = UsedMemory(self._bindings.inputs, self._bindings.outputs, self._bound.dimensions)

    def _is_current(self) -> bool:
        """Whether what is bound is to run: it is the plan in force, or there is a reason to stay with it."""
        plans = self.plans
        if plans.missing:
            plans.look()
        current = plans.current
        return self._stays or current is self._bound.prepared or current is self._declined

    def _leave(self) -> None:
        """End a run; nothing uses its memory any more."""
        self._busy.release()
        if self._closing and self._busy.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._busy.release()

    def _launched_ended(self) -> None:
        self._is_launched = False
        self._leave()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            for bound in [bound for _, bound in self._turns] or [self._bound]:
                bound.close()
                self.plans.drop(bound.prepared)
            if self._state is not None:
                self._state.leave()
            self._planned.ended()

    def _follow(self) -> None:
        """Bind the plan in force in place of the last one, which stays bound if that fails."""
        before, plan = self._bound, self.plans.hold()
        try:
            self._bindings, self._bound = self._bind_to(self._planned, plan)
        except (NnhalError, OSError) as error:
            _log.warning("a binding stays with its last plan", reason=str(error))
            self._declined = plan
            return
        before.close()
        self.plans.drop(before.prepared)

    def _take(self, way: DimensionedBinding) -> None:
        """Go over to the plan for the dimensions that are bound; the plan in force stays bound if that fails."""
        self._way = None
        planned, before, bound = way.planned(), self._planned, self._bound
        if planned is None:
            return
        try:
            self._bindings, self._bound = self._bind_to(planned, planned.plans.hold())
        except (NnhalError, OSError) as error:
            _log.info("a binding does not take the plan for its dimensions", reason=str(error))
            planned.ended()
            return
        self._planned = planned
        self.close_run_channel()
        bound.close()
        before.plans.drop(bound.prepared)
        before.ended()

    def _turns_of(self, state: CarriedState) -> tuple[tuple[Bindings, BoundPlan], ...]:
        """What is bound for the two turns of a state, in which its buffers have changed their roles."""
        turns: list[tuple[Bindings, BoundPlan]] = []
        try:
            for turn in range(2):
                self.plans.hold_too(state.prepared)
                turns.append(self._bind_to(self._planned, state.prepared, state, turn))
        except BaseException:
            for _, bound in turns:
                bound.close()
                self.plans.drop(bound.prepared)
            raise
        return tuple(turns)

    def _bindings_by(
        self, planned: PlannedBinding, plan: PreparedPlan, state: CarriedState | None = None, turn: int = 0
    ) -> Bindings:
        """What is bound, by the operands of a plan. Raises INVALID_ARGUMENT unless each tensor is bound once."""
        imported = plan.imported
        inputs = bindings_of(imported.inputs, self._inputs, "input")
        outputs = bindings_of(imported.outputs, planned.outputs, "output")
        if state is not None:
            inputs = {**inputs, **bindings_of([s.before for s in imported.states], state.inputs(turn), "state")}
            outputs = {**outputs, **bindings_of([s.after for s in imported.states], state.outputs(turn), "state")}
        return Bindings(
            inputs,
            outputs,
            self._pools,
            self._config,
            planned.plans.miss,
            weakly(self.close_run_channel),
        )

    def _bind_to(
        self, planned: PlannedBinding, plan: PreparedPlan, state: CarriedState | None = None, turn: int = 0
    ) -> tuple[Bindings, BoundPlan]:
        """Bind a plan that the caller holds; the hold passes on to what is returned."""
        try:
            bindings = self._bindings_by(planned, plan, state, turn)
            return bindings, BoundPlan(plan, bindings)
        except BaseException:
            planned.plans.drop(plan)
            raise

    def _ways(self, cancellation: Cancellation) -> LaunchMethods:
        """How a run can be launched. Memory whose dimensions are known only when it is used cannot be fenced."""
        bound = self._bound
        fenced = bound.bind_for_launch() if self._used.is_empty else None

        def finish(launched: Sequence[Launched]) -> Outcome:
            bound.engine.fell_back = bound.engine.ran_whole = False
            return fenced.finish(launched) if fenced is not None else ([], [])

        def on_cpu(deadline_ns: int, error: NnhalError) -> RunReport:
            return self._run(lambda deadline_ns: bound.engine.run_whole(deadline_ns, error, cancellation), deadline_ns)

        return LaunchMethods(
            fenced,
            lambda launched: self._run(lambda _: finish(launched)),
            lambda deadline_ns: self._run(lambda deadline_ns: bound.run(deadline_ns, cancellation), deadline_ns),
            on_cpu if bound.prepared.parts.may_fall_back else None,
            self._launched_ended,
            self._explained,
        )

    def _run(
        self,
        attempt: Callable[[int], Outcome],
        deadline_ns: int = NO_DEADLINE,
        again: Callable[[int], Outcome] | None = None,
        begun: Begun | None = None,
    ) -> RunReport:
        """Report an attempt, or if it fails what comes of trying it ``again`` by another plan that is then in force."""
        begun = begun or self._begin()
        if self._state is not None:
            self._state.require()
        if not self._used.is_empty:
            self._used.require_usable()
        try:
            try:
                outcome = attempt(deadline_ns)
            except NnhalError as error:
                if again is None or not self._follow_after(error):
                    raise
                missing, bound = tuple(sorted(self.plans.missing)), self._bound
                begun = begun._replace(socket_bytes=bound.socket_bytes)
                outcome = again(deadline_ns)
                bound.engine.fell_back, bound.engine.failed_devices = True, missing
        except BaseException as error:
            self._note_failed(error, begun)
            self._raise_unloaded(error)
            if self._state is not None and isinstance(error, NnhalError):
                self._state.require_kept(error)
            raise
        return self._report(outcome, begun)

    def _follow_after(self, error: NnhalError) -> bool:
        """Bind the plan in force, and return whether it is another one than that by which a run has failed.

        The CPU makes up for any other device that dies in a run, but for the CPU only a plan without it can.
        """
        failed = self._bound.prepared
        if isinstance(error, FINAL_ERRORS) or self._stays or not failed.parts.may_fall_back or not self.plans.missing:
            return False
        self.plans.settle(_REPLAN_SECONDS)
        if not self._is_current():
            self._follow()
        return self._bound.prepared is not failed

    def _over(self) -> HalError:
        """Why it runs no more."""
        if self._is_unloaded:
            return UnloadedError()
        return HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the binding has been released")

    def _explained(self, error: NnhalError) -> NnhalError:
        """The error of a run: UnloadedError if the model has been unloaded, which devices say in other words."""
        if not self._is_unloaded or (isinstance(error, HalError) and error.status in _MISSED):
            return error
        is_final = isinstance(error, FINAL_ERRORS) and not isinstance(error, CancelledRunError)
        return error if is_final else UnloadedError()

    def _raise_unloaded(self, error: BaseException) -> None:
        """Raise what explains an error, if that is another one."""
        if self._is_unloaded and isinstance(error, NnhalError):
            explained = self._explained(error)
            if explained is not error:
                raise explained from error

    def _begin(self) -> Begun:
        instant = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if self._measure else -1
        return Begun(instant, time.perf_counter_ns(), self._bound.socket_bytes)

    def _note_failed(self, error: BaseException, begun: Begun) -> None:
        release_frames(error)
        self._used.note_failed()
        if self._watcher is not None:
            self._watcher.failed(self, time.perf_counter_ns() - begun.started_ns, error)

    def _report(self, outcome: Outcome, begun: Begun) -> RunReport:
        """Note that a run has succeeded."""
        bound, used, watcher = self._bound, self._used, self._watcher
        reports, outputs = outcome
        if self.settled:
            found = {output.name for output in outputs}
            outputs = [*outputs, *(output for output in self.settled if output.name not in found)]
        if not used.is_empty:
            used.note_written({output.name: output.dimensions for output in outputs})
        if self._state is not None:
            self._state.advance()
            outputs = [output for output in outputs if output.name not in self._state.output_names]
        instant, started, before = begun
        duration, socket_bytes = time.perf_counter_ns() - started, bound.socket_bytes - before
        fell_back = bound.engine.fell_back
        failed = bound.engine.failed_devices if fell_back else ()
        if self._measure:
            ledger = self._ledgers.of(bound.prepared, bound.values, bound.lengths(), reports, bound.engine.ran_whole)
            report = RunReport(
                duration, socket_bytes, tuple(reports), tuple(outputs), ledger, instant, fell_back, failed
            )
        else:
            report = RunReport(duration, socket_bytes, (), tuple(outputs) if outputs else (), (), -1, fell_back, failed)
        if watcher is not None:
            watcher.ran(self, report)
        return report

    def _report_direct_runs(self, usage: RunUsage) -> None:
        if self._watcher is not None and usage != RunUsage():
            self._watcher.ran_directly(self, usage)


class StartedRun:
    """A run that a device has begun. It must be finished; until then its context runs nothing else.

    ``finish`` may wait for the device, but does not once ``exchange`` can be read. What may take long after a failure
    is left to ``recover``. Use it in one thread at a time.
    """

    def __init__(
        self,
        context: ExecutionContext,
        exchange: OneExchange,
        begun: Begun,
        deadline_ns: int,
        cancellation: Cancellation | None,
    ) -> None:
        self.exchange = exchange
        """Where the answer comes: the same object for all runs of a context, until it is bound again."""
        self._context = context
        self._begun = begun
        self._deadline_ns = deadline_ns
        self._cancellation = cancellation
        self._error: NnhalError | None = None

    def finish(self) -> RunReport | None:
        """The report of the run; None if it failed, and ``recover`` is to be called."""
        context = self._context
        try:
            outcome = self.exchange.finish()
        except NnhalError as error:
            self._error = error
            return None
        except BaseException:
            context._leave()
            raise
        try:
            return context._report(outcome, self._begun)
        finally:
            context._leave()

    def drop(self) -> None:
        """Leave it at the failure."""
        error, self._error = self._error, None
        if error is not None:
            self._context._note_failed(error, self._begun)
        self._context._leave()

    def recover(self) -> RunReport:
        """Do what ``ExecutionContext.run`` does after the failure, which may take long. Raises as that does."""
        context, error = self._context, self._error
        self._error = None
        if error is None:
            raise TypeError("only a run that has failed can be recovered")
        # What makes the attempt must not hold the error any more when that is raised again: see release_frames.
        held = [error]
        del error
        try:
            return context._run(
                lambda deadline_ns: context._bound.recover(deadline_ns, held.pop(), self._cancellation),
                self._deadline_ns,
                lambda deadline_ns: context._bound.run(deadline_ns, self._cancellation),
                self._begun,
            )
        finally:
            context._leave()
