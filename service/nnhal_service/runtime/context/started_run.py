"""A run that a device has begun, which its caller need not wait for."""

from __future__ import annotations

from nnhal.errors import NnhalError
from nnhal.shares import Tenant, act_as_before, act_for
from nnhal_service.runtime.context.followed_plan import FollowedPlan
from nnhal_service.runtime.context.occupancy import Occupancy
from nnhal_service.runtime.context.run_retries import RunRetries
from nnhal_service.runtime.context.run_state import Begun
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.reports import RunReport
from nnhal_service.runtime.run.steps import OneExchange


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
