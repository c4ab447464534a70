"""A loaded model that is bound to memory, and its runs by the plan that is in force."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from nnhal.clock import now_ns
from nnhal.errors import HalError, NnhalError, invalid_argument
from nnhal.fence import Fence
from nnhal.shares import act_as_before, act_for, acting_for, tenant
from nnhal.types import NO_DEADLINE, NO_HINTS, ErrorStatus, ExecutionConfig, Hints, Memory, RunUsage
from nnhal.types.layout import Dimensions
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.context.dimensioned_binding import DimensionedBinding, PlannedBinding
from nnhal_service.runtime.context.followed_plan import ClientBinding, FollowedPlan
from nnhal_service.runtime.context.occupancy import Occupancy
from nnhal_service.runtime.context.run_retries import RunRetries, StartedRun
from nnhal_service.runtime.context.run_state import ContextMemories, RunInFlight
from nnhal_service.runtime.context.weak_callback import weak_callback
from nnhal_service.runtime.devices.hangs import WAITED_SECONDS, AwaitedDevice
from nnhal_service.runtime.memory.bindings import TensorBinding
from nnhal_service.runtime.memory.state import CarriedState
from nnhal_service.runtime.plan.active_plan import ActivePlan
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.run.bound_plan import NO_LENGTHS
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError, RunCancellation
from nnhal_service.runtime.run.chained import Launched
from nnhal_service.runtime.run.deadlines import has_passed
from nnhal_service.runtime.run.launched_run import LaunchedRun, LaunchMethods, start_launched_run
from nnhal_service.runtime.run.reports import OutputReport, RunReport, RunWatcher
from nnhal_service.runtime.run.run_channel import DirectRuns, RunChannelEnd
from nnhal_service.runtime.run.steps import Outcome

_HANGING_TIMES = 20
"""A run that takes so many times as long as the slowest before hangs, as devices of nnhal have it too."""
_STOPPED_TIMES = 2
"""Seconds after it was stopped count so many times: it has been waited for already."""
_log = get_logger(__name__)
DRAIN_SECONDS = 5.0
"""The time that closing waits for a run in flight. A longer one is cancelled."""


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
        varies: bool = False,
    ) -> None:
        """``watcher`` is called for every run. ``way`` finds a plan for the dimensions that are bound. ``state`` is
        that of a model that has one: the context keeps to its plan. If it ``varies``, the dimensions of inputs are the
        largest, and each run has its own.

        Raises HalError if the bindings are not valid or a device refuses, TransportError if one is gone.
        """
        self._client = tenant()
        config = ExecutionConfig(measure_timing, loop_timeout_duration_ns, hints.values, hints.extension_names)
        binding = ClientBinding(inputs, pools, config, weak_callback(self.close_run_channel), varies)
        self._cancellation = RunCancellation()
        self._current: Cancellation = self._cancellation
        """That of the run in flight, or of the last run."""
        self._since_ns, self._deadline_ns, self._is_launched = 0, NO_DEADLINE, False
        self._ends_by_ns = NO_DEADLINE
        """The deadline of the run in flight, or of the last run, whoever has called it."""
        self._cancelled: tuple[Cancellation, float] | None = None
        """What is cancelled, and when that was noticed, by the monotonic clock."""
        self._stopped: tuple[int, float] = 0, 0.0
        """Which run was stopped since it hangs, by when it began, and when that was, by the monotonic clock."""
        self._direct_runs = DirectRuns()
        self.followed = FollowedPlan(planned, binding, way, state)
        """The plan by which it runs."""
        self._occupancy = Occupancy(self.followed.close)
        self._retries = RunRetries(self.followed, self._occupancy, measure_timing, watcher)
        for part in self.prepared.parts:
            part.member.hangs.add(self)

    def awaited(self) -> Iterable[AwaitedDevice]:
        """The devices that a run in flight has been waiting for, or that a client may run on directly."""
        is_direct, waited = self.has_run_channel, self._occupancy.taken_seconds
        if is_direct or waited > WAITED_SECONDS:
            may_be_busy = not (is_direct or self._retries.has_succeeded)
            prepared, engine = self.prepared, self.followed.bound.engine
            working = {prepared.parts.fallback_device} if engine.fell_back else prepared.devices
            overdue = self._overdue_seconds(waited)
            for member in prepared.parts.members:
                times = (overdue, waited) if member.name in working else (0.0, 0.0)
                yield AwaitedDevice(member.name, member.remote, may_be_busy, *times)

    def stop_if_it_hangs(self, seconds: float) -> None:
        """As ``Waiting`` says. Not a first run, one whose caller waits for fences, or one that may be of any length."""
        slowest, followed = self._retries.slowest_seconds(), self.followed
        began, waited = self._occupancy.entered_ns, self._occupancy.taken_seconds
        is_like_others = slowest and not self._is_launched and followed.bound.takes_as_long_each_time
        if not is_like_others or waited <= max(seconds, _HANGING_TIMES * slowest) or self._stopped[0] == began:
            return
        self._stopped = began, time.monotonic()
        devices = ", ".join(sorted(followed.prepared.devices))
        _log.warning("a run hangs: it is stopped", devices=devices, seconds=round(waited, 1), slowest=round(slowest, 3))
        followed.bound.stop()

    def _overdue_seconds(self, waited: float) -> float:
        """For how long the run in flight should have ended, of the seconds that are ``waited`` for it: what is known of
        the last run may still be there when it begins. Since when it is cancelled is noted at the first look.
        """
        if not waited:
            return 0.0
        current, now = self._current, time.monotonic()
        if not current.cancelled:
            self._cancelled = None
        elif self._cancelled is None or self._cancelled[0] is not current:
            self._cancelled = current, now
        cancelled_seconds = 0.0 if self._cancelled is None else now - self._cancelled[1]
        if self._stopped[0] == self._occupancy.entered_ns:
            cancelled_seconds = max(cancelled_seconds, _STOPPED_TIMES * (now - self._stopped[1]))
        has_deadline = self._ends_by_ns != NO_DEADLINE
        return min(waited, max(cancelled_seconds, (now_ns() - self._ends_by_ns) / 1e9 if has_deadline else 0.0))

    @property
    def plans(self) -> ActivePlan:
        return self.followed.plans

    @property
    def settled(self) -> Sequence[OutputReport]:
        """The dimensions of outputs that the model leaves open and those of the inputs determine."""
        return self.followed.planned.settled

    @property
    def insufficient(self) -> Sequence[OutputReport]:
        """The dimensions of such outputs for which there is too little memory, if a plan was prepared for them."""
        return self.followed.planned.insufficient

    @property
    def state(self) -> CarriedState | None:
        return self.followed.state

    def reset_state(self) -> None:
        """Have the next run begin with the initial values of the state.

        Raises GENERAL_FAILURE during a run, INVALID_ARGUMENT if the model has no state.
        """
        state = self.followed.state
        if state is None:
            invalid_argument("the model has no state")
        self._occupancy.enter()
        try:
            state.forget()
            if self.has_run_channel:
                try:
                    state.reset(both=True)  # the client's next run may be direct, of either turn
                except NnhalError:
                    self.close_run_channel()  # so that it comes here, and resets it then
        finally:
            self._occupancy.leave()

    @property
    def prepared(self) -> PreparedPlan:
        """The plan of the last run, or of the next one before the first."""
        return self.followed.bound.prepared

    def run(
        self,
        deadline_ns: int = NO_DEADLINE,
        cancellation: Cancellation | None = None,
        lengths: Mapping[str, Dimensions] = NO_LENGTHS,
        turn: int | None = None,
    ) -> RunReport:
        """Run all steps, for ``lengths`` of inputs if the binding varies, in a ``turn`` of the state if given.

        Raises HalError, or TransportError if a device is gone.

        After a cancellation no other step begins, and CancelledRunError is raised when those that have begun end.
        Operators see it unless its ``cancellation`` is that of a request, which they see instead.
        """
        self._enter(turn)
        before = act_for(self._client)  # what is made anew after a failure is the client's, whichever thread runs it
        self._ends_by_ns = deadline_ns
        if cancellation is None or isinstance(cancellation, RunCancellation):
            self._since_ns, self._deadline_ns = time.perf_counter_ns(), deadline_ns
        if cancellation is None:
            cancellation = self._cancellation
            if cancellation.cancelled:  # too late for an earlier run
                cancellation = self._cancellation = RunCancellation()
        self._current, followed = cancellation, self.followed

        def attempt(deadline_ns: int) -> Outcome:
            if has_passed(deadline_ns):
                missed = ErrorStatus.MISSED_DEADLINE_PERSISTENT
                raise HalError(missed, "the deadline had passed before the run began")
            return followed.bound.run(deadline_ns, cancellation, lengths)

        try:
            return self._retries.run(attempt, deadline_ns, attempt)
        except CancelledRunError as error:
            if self._occupancy.is_closing:
                raise self._occupancy.over() from error
            raise
        finally:
            act_as_before(before)
            self._occupancy.leave()

    def start(self, deadline_ns: int = NO_DEADLINE, cancellation: Cancellation | None = None) -> StartedRun | None:
        """Start a run and return at once, if it is one exchange with a device and not the first by its plan; else None,
        and ``run`` runs it.

        Raises HalError if the context is running, or closed.
        """
        occupancy, followed, exchange = self._occupancy, self.followed, None
        occupancy.enter()
        self._current, self._ends_by_ns = cancellation or self._cancellation, deadline_ns
        try:
            if followed.state is not None:
                followed.take_turn()
            if followed.starts_at_once:
                begun = self._retries.begin()
                exchange = followed.bound.start(deadline_ns, cancellation, followed.has_only_state)
            if exchange is not None:
                return StartedRun(
                    occupancy, followed, self._retries, exchange, begun, deadline_ns, cancellation, self._client
                )
        except BaseException:
            occupancy.leave()
            raise
        occupancy.leave()
        return None

    def launch(
        self, fences: Sequence[Fence], deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
    ) -> LaunchedRun:
        """Launch a run that begins when the fences have signalled and may take ``duration_ns`` from then on.

        Raises as ``run`` does if it cannot be launched and may not run on the CPU instead.
        """
        self._enter()
        self._since_ns, self._deadline_ns, self._is_launched = time.perf_counter_ns(), deadline_ns, True
        self._ends_by_ns = deadline_ns
        cancellation = self._current = Cancellation()
        try:
            with acting_for(self._client):
                ways = self._ways(cancellation)
        except BaseException as error:
            self._launched_ended()
            self._occupancy.raise_unloaded(error)
            raise
        try:
            return start_launched_run(ways, fences, deadline_ns, duration_ns, cancellation)
        except NnhalError as error:
            self._occupancy.raise_unloaded(error)
            raise

    @property
    def running(self) -> RunInFlight | None:
        """The run in flight, unless it was started or has a cancellation of its own; None if there is none."""
        if not self._occupancy.is_taken or not self._since_ns:
            return None
        return RunInFlight(self._since_ns, self._deadline_ns, self._is_launched)

    def cancel(self, running: RunInFlight) -> bool:
        """Cancel a run, which ends as soon as its devices end it; returns False if it has ended."""
        cancellation = self._current
        if not self._occupancy.is_taken or self.running != running:
            return False
        cancellation.cancel()
        return True

    @property
    def memories(self) -> ContextMemories:
        return ContextMemories(tuple(self.followed.bindings.pools), self.followed.bound.arena)

    @property
    def lasting_devices(self) -> frozenset[str]:
        """The devices that it keeps to whatever is planned, since it is bound to memory of a domain."""
        return self.followed.prepared.devices if self.followed.stays else frozenset()

    def leave_direct_runs(self, plan: PreparedPlan) -> None:
        """Close the run channel unless it is to the steps of ``plan``, so that the client's next run is by that."""
        if not self.followed.stays and self.direct_plan is not plan and self.has_run_channel:
            self.close_run_channel()

    def open_run_channel(self) -> RunChannelEnd | None:
        """As ``open_run_channels``, for a client that knows of no turns."""
        return next(iter(self.open_run_channels(takes_turns=False)), None)

    def open_run_channels(self, takes_turns: bool = True) -> Sequence[RunChannelEnd]:
        """Open a run channel to the steps; none if they cannot be wired, or a run is more than its steps.

        For a model with a state there are two if the client ``takes_turns``, for runs of the first turn and the second.
        They stay open until the context is closed, or bound again after its device came back or after re-planning.
        Raises as ``run`` does.
        """
        self._enter()
        try:
            paths = self.followed.direct_paths(takes_turns)
            return self._direct_runs.open(paths) if paths else ()
        finally:
            self._occupancy.leave()

    @property
    def run_channels(self) -> int:
        """Return how many run channels are open."""
        return self._direct_runs.count

    @property
    def direct_plan(self) -> PreparedPlan:
        """The plan behind the latest run channel; that of the last run if there was no channel."""
        return self.followed.direct_plan

    @property
    def lengths(self) -> Mapping[int, int]:
        """Bytes of the values that have memory of their own, by operand."""
        return self.followed.lengths

    @property
    def has_run_channel(self) -> bool:
        return self._direct_runs.is_open

    def close_run_channel(self) -> None:
        """Close the run channel before the context is closed; harmless if none is open.

        Afterwards no device that answers is at work on a direct run of several steps.
        """
        if self._direct_runs.is_open:
            self._retries.report_direct_runs(self._direct_runs.close())

    def count_direct_runs(self, seconds: float) -> bool:
        """Report direct runs to the watcher; returns False if the device does not answer within ``seconds``."""
        usage = self._direct_runs.take_usage(seconds)
        self._retries.report_direct_runs(usage or RunUsage())
        return usage is not None

    @property
    def items(self) -> int:
        """The length of the first input's first axis; 1 if it has none."""
        return self.followed.items

    def close(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Release it when a run in flight has ended; harmless if repeated.

        A run that has not ended within ``drain_seconds`` is cancelled. If it does not end soon, or at once if
        ``drain_seconds`` are 0, the run releases the context at its end: until then devices may use its memory.
        """
        self._occupancy.close(drain_seconds, lambda: self._current.cancel())

    def unload(self, drain_seconds: float) -> None:
        """Release it since its model is unloaded: runs that fail from now on say so. See ``close``."""
        self._occupancy.unload()
        self.close(drain_seconds)

    def _enter(self, turn: int | None = None) -> None:
        """Begin a run, by the plan in force. Raises GENERAL_FAILURE if another run has not ended."""
        self._occupancy.enter()
        try:
            self.followed.take_turn(turn)
            self.followed.follow()
        except BaseException:
            self._occupancy.leave()
            raise

    def _launched_ended(self) -> None:
        self._is_launched = False
        self._occupancy.leave()

    def _ways(self, cancellation: Cancellation) -> LaunchMethods:
        """Return how a run can be launched. Memory whose dimensions are known only when it is used cannot be fenced."""
        followed, retries = self.followed, self._retries
        bound = followed.bound
        fenced = bound.bind_for_launch() if self.followed.used.is_empty else None

        def finish(launched: Sequence[Launched]) -> Outcome:
            bound.engine.fell_back = bound.engine.ran_whole = False
            return fenced.finish(launched) if fenced is not None else ([], [])

        def again(deadline_ns: int) -> Outcome:
            return followed.bound.run(deadline_ns, cancellation)

        def on_cpu(deadline_ns: int, error: NnhalError) -> RunReport:
            return retries.run(
                lambda deadline_ns: bound.engine.run_whole(deadline_ns, error, cancellation), deadline_ns, again
            )

        return LaunchMethods(
            fenced,
            lambda launched: retries.run(lambda _: finish(launched)),
            lambda deadline_ns: retries.run(again, deadline_ns, again),
            on_cpu if bound.prepared.parts.may_fall_back else None,
            self._launched_ended,
            self._occupancy.explained,
        )
