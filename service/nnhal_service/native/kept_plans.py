"""Plans that clients have asked for and may load: each belongs to a session, and is dropped when it is not used."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence

from nnhal.errors import HalError, invalid_argument
from nnhal.memory import CopyBudget
from nnhal.threads import LastingThread
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal_hosting.sessions import Ownership
from nnhal_service.runtime import PlannedNodes

_GIVEN_ON_LOADING = {"name", "plan", "group", "deadline_ns"}
"""The fields of a request that loads from a plan."""
MAX_PLANS = 64
"""Plans that one session may have at a time."""


class KeptPlan:
    """The groups of a plan, in memory that counts as long as it is kept."""

    def __init__(self, groups: Sequence[PlannedNodes], size: int, copies: CopyBudget) -> None:
        """``size`` are the bytes that it holds. Raises RESOURCE_EXHAUSTED_TRANSIENT if ``copies`` has no room."""
        self.groups = tuple(groups)
        self.bytes = size
        copies.charge_for(self, size, "a plan that is kept")


class KeptPlans:
    """Forgets plans that have not been used for some seconds. Safe to use from several threads."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._until: dict[int, tuple[weakref.ref[Ownership], float]] = {}
        """The session of each handle, and when it is dropped; the first is dropped first."""
        self._is_watched = False

    def keep(self, session: Ownership, plan: KeptPlan) -> int:
        """Give a plan to a session, and return its handle.

        Raises RESOURCE_EXHAUSTED_TRANSIENT if the session has MAX_PLANS already, or too many objects.
        """
        if len(session.all(KeptPlan)) >= MAX_PLANS:
            raise HalError(
                ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                f"the session has {MAX_PLANS} plans, which is all that it may have: release some",
            )
        handle = session.add(plan)
        with self._changed:
            self._until[handle] = weakref.ref(session), self._clock() + self.seconds
            if not self._is_watched:
                self._is_watched = LastingThread(self._watch, "plans").started() is not None
        return handle

    def use(self, session: Ownership, handle: int) -> KeptPlan:
        """Return a plan, which is kept for as long again. Raises INVALID_ARGUMENT if the session has none such."""
        plan = session.find(handle, KeptPlan)
        if plan is None:
            invalid_argument(
                f"plan {handle} does not exist in this session, was released, or was not used for {self.seconds:g} s"
            )
        with self._changed:
            if self._until.pop(handle, None) is not None:
                self._until[handle] = weakref.ref(session), self._clock() + self.seconds
        return plan

    def release(self, session: Ownership, handle: int) -> None:
        """Drop a plan; an unknown handle is ignored."""
        if session.find(handle, KeptPlan) is not None:
            session.release(handle)
            with self._changed:
                self._until.pop(handle, None)

    def drop_unused(self) -> float | None:
        """Drop the plans that were not used for too long. Return the seconds until the next is; None if there is none.

        Those of sessions that are over have gone with them.
        """
        while True:
            with self._changed:
                handle = next(iter(self._until), None)
                if handle is None:
                    self._is_watched = False
                    return None
                found, until = self._until[handle]
                session = found()
                if session is not None and not session.is_over and until > self._clock():
                    return until - self._clock()
                del self._until[handle]
            if session is not None:
                session.release(handle)

    def _watch(self) -> None:
        while (seconds := self.drop_unused()) is not None:
            with self._changed:
                self._changed.wait(seconds)


def group_to_load(plan: KeptPlan, request: wire.LoadModelRequest) -> PlannedNodes:
    """Return the group that a request loads. Raises INVALID_ARGUMENT if it asks for what the plan has said."""
    given = [field.name for field, _ in request.ListFields() if field.name not in _GIVEN_ON_LOADING]
    if given:
        invalid_argument(f"got {', '.join(given)} with a plan, which has all but a name, a group and a deadline")
    if not 0 <= request.group < len(plan.groups):
        invalid_argument(f"group {request.group} of a plan of {len(plan.groups)} groups")
    return plan.groups[request.group]
