"""Runs that are tried again after a failure, those that were started and need not be waited for, and their reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

from nnhal.clock import now_ns
from nnhal.errors import HalError, NnhalError, TransportError
from nnhal.shares import Tenant, act_as_before, act_for
from nnhal.types import NO_DEADLINE, ErrorStatus, RunUsage
from nnhal_service.runtime.context.followed_plan import PATIENCE_SECONDS, FollowedPlan
from nnhal_service.runtime.context.occupancy import Occupancy
from nnhal_service.runtime.context.run_state import Begun, release_frames
from nnhal_service.runtime.run.bound_plan import BoundPlan
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.deadlines import has_passed
from nnhal_service.runtime.run.ledger import Ledgers
from nnhal_service.runtime.run.reports import RunReport, RunWatcher, TouchedMemoryError
from nnhal_service.runtime.run.steps import OneExchange, Outcome

_PLANNING_SECONDS = 30.0
"""The time that a run waits for a plan that is being prepared: on a busy machine that may take long."""


class RunRetries:
    """Runs of one context, tried again while that may help. Keeps the state, and notes what was written."""

    def __init__(
        self, followed: FollowedPlan, occupancy: Occupancy, measure_timing: bool, watcher: RunWatcher | None
    ) -> None:
        """``watcher`` is called for every run."""
        self._followed = followed
        self._occupancy = occupancy
        self._measure = measure_timing
        self._watcher = watcher
        self._ledgers = Ledgers()
        self._slowest: tuple[BoundPlan | None, float] = None, 0.0
        self.has_succeeded = False
        """True if a run has."""

    def slowest_seconds(self) -> float:
        """Return how long the slowest run has taken that has succeeded as the plan is bound; 0 if none has."""
        bound, seconds = self._slowest
        return seconds if bound is self._followed.bound else 0.0

    def begin(self) -> Begun:
        instant = now_ns() if self._measure else -1
        traffic = self._followed.bound.traffic
        return Begun(instant, time.perf_counter_ns(), traffic.sent + traffic.received)

    def run(
        self,
        attempt: Callable[[int], Outcome],
        deadline_ns: int = NO_DEADLINE,
        again: Callable[[int], Outcome] | None = None,
        begun: Begun | None = None,
    ) -> RunReport:
        """Report an attempt. If it meets a dead device, it is tried ``again`` by the plan that is then in force.

        That may meet a dead device too: it is tried until it succeeds, for PATIENCE_SECONDS or until the deadline, and
        as long as another plan is being prepared.
        """
        begun, followed = begun or self.begin(), self._followed
        state, used = followed.state, followed.used
        if state is not None:
            state.require()
        if not used.is_empty:
            used.require_usable()
        try:
            until, lost = 0.0, frozenset[str]()
            while True:
                try:
                    plan = followed.prepared
                    with nullcontext() if plan.parts.has_run else plan.planner.first_run(plan):
                        outcome = attempt(deadline_ns)
                    break
                except NnhalError as error:
                    now = time.monotonic()
                    until = until or now + _patience(deadline_ns)
                    planning_until = now + _PLANNING_SECONDS if deadline_ns == NO_DEADLINE else until
                    lost |= followed.plans.missing | followed.prepared.gone
                    if again is None or not followed.follow_after(error, until, planning_until):
                        _require_in_time(error, deadline_ns)
                        raise
                    attempt, begun = again, begun._replace(socket_bytes=followed.bound.traffic.total)
            if until:
                engine = followed.bound.engine
                engine.fell_back, engine.failed_devices = True, tuple(sorted(lost))
        except BaseException as error:
            self.note_failed(error, begun)
            self._occupancy.raise_unloaded(error)
            if state is not None and isinstance(error, NnhalError):
                state.require_kept(error)
            raise
        return self.report(outcome, begun)

    def note_failed(self, error: BaseException, begun: Begun) -> None:
        release_frames(error)
        self._followed.used.note_failed()
        if self._watcher is not None:
            self._watcher.failed(self._followed, time.perf_counter_ns() - begun.started_ns, error)

    def report(self, outcome: Outcome, begun: Begun) -> RunReport:
        followed = self._followed
        bound, used, state, settled = followed.bound, followed.used, followed.state, followed.planned.settled
        reports, outputs = outcome
        if settled:
            found = {output.name for output in outputs}
            outputs = [*outputs, *(output for output in settled if output.name not in found)]
        if not used.is_empty:
            used.note_written({output.name: output.dimensions for output in outputs})
        if state is not None:
            state.advance()
            outputs = [output for output in outputs if output.name not in state.output_names]
        self.has_succeeded = True
        instant, started, before = begun
        traffic = bound.traffic
        duration, socket_bytes = time.perf_counter_ns() - started, traffic.sent + traffic.received - before
        fell_back = bound.engine.fell_back
        slowest_of, slowest = self._slowest
        if not fell_back and (slowest_of is not bound or duration > slowest * 1e9):
            self._slowest = bound, duration / 1e9
        bound.prepared.parts.has_run |= not fell_back
        failed = bound.engine.failed_devices if fell_back else ()
        if self._measure:
            ledger = self._ledgers.of(
                bound.prepared, bound.values, bound.lengths(), reports, bound.engine.ran_whole, bound.engine.injected
            )
            report = RunReport(
                duration, socket_bytes, tuple(reports), tuple(outputs), ledger, instant, fell_back, failed
            )
        else:
            report = RunReport(duration, socket_bytes, (), tuple(outputs) if outputs else (), (), -1, fell_back, failed)
        if self._watcher is not None:
            self._watcher.ran(followed, report)
        return report

    def report_direct_runs(self, usage: RunUsage) -> None:
        """Report what a client has run directly."""
        if self._watcher is not None and usage != RunUsage():
            self._watcher.ran_directly(self._followed, usage)


class StartedRun:
    """A run that a device has begun. It must be finished; until then its context runs nothing else.

    ``finish`` may wait for the device, but does not once ``exchange`` can be read. What may take long after a failure
    is left to ``recover``. Use it in one thread at a time.
    """

    def __init__(
        self,
        occupancy: Occupancy,
        followed: FollowedPlan,
        retries: RunRetries,
        exchange: OneExchange,
        begun: Begun,
        deadline_ns: int,
        cancellation: Cancellation | None,
        client: Tenant,
    ) -> None:
        """``client`` is the one whose binding it is."""
        self.exchange = exchange
        """Where the answer comes: the same object for all runs of a context, until it is bound again."""
        self._occupancy = occupancy
        self._followed = followed
        self._retries = retries
        self._begun = begun
        self._deadline_ns = deadline_ns
        self._cancellation = cancellation
        self._client = client
        self._error: NnhalError | None = None

    def finish(self) -> RunReport | None:
        """The report of the run; None if it failed, and ``recover`` is to be called."""
        try:
            outcome = self.exchange.finish()
        except NnhalError as error:
            self._error = error
            return None
        except BaseException:
            self._occupancy.leave()
            raise
        try:
            return self._retries.report(outcome, self._begun)
        finally:
            self._occupancy.leave()

    def drop(self) -> None:
        """Accept the failure: nothing is tried again."""
        error, self._error = self._error, None
        if error is not None:
            self._retries.note_failed(error, self._begun)
        self._occupancy.leave()

    def recover(self) -> RunReport:
        """Do what ``ExecutionContext.run`` does after the failure, which may take long. Raises as that does."""
        followed, error = self._followed, self._error
        self._error = None
        if error is None:
            raise TypeError("only a run that has failed can be recovered")
        # What makes the attempt must not hold the error any more when that is raised again: see release_frames.
        held = [error]
        del error
        before = act_for(self._client)
        try:
            return self._retries.run(
                lambda deadline_ns: followed.bound.recover(deadline_ns, held.pop(), self._cancellation),
                self._deadline_ns,
                lambda deadline_ns: followed.bound.run(deadline_ns, self._cancellation),
                self._begun,
            )
        finally:
            act_as_before(before)
            self._occupancy.leave()


def _patience(deadline_ns: int) -> float:
    """Return how many seconds a run is tried that meets dead devices."""
    if deadline_ns == NO_DEADLINE:
        return PATIENCE_SECONDS
    return min(PATIENCE_SECONDS, max(0, deadline_ns - now_ns()) / 1e9)


def _require_in_time(error: NnhalError, deadline_ns: int) -> None:
    """Raise MISSED_DEADLINE_TRANSIENT if a run lost its device after its deadline: nobody waits for more than that."""
    if has_passed(deadline_ns) and isinstance(error, TransportError | TouchedMemoryError):
        raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, f"the deadline has passed: {error}") from error
