"""Which plan a loaded model runs by, as devices come and go."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection

from nnhal.errors import HalError, NnhalError
from nnhal.types import ErrorStatus
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import PlacementError
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan

_LOOK_SECONDS = 0.05
"""Between two looks for devices that are missing."""
_LONGEST_PAUSE_SECONDS = 5.0
"""Before what came back and could not be used is tried again: twice as long each time, up to this."""
_log = get_logger(__name__)


class ActivePlan:
    """``current`` is the plan that the model was loaded with, ``original``, or one without the devices that are gone,
    which are ``missing``. Both may be read at any time.

    Runs that meet a dead device say so, and go on by themselves; a thread, one at a time, prepares a plan without it.
    While devices are missing, runs look for them, and when they are back the original's parts are prepared again. Other
    plans are released when nobody holds them. No lock is held while anything is prepared. Safe to use from several
    threads.
    """

    def __init__(self, original: PreparedPlan) -> None:
        self.original = original
        self.current = original
        self._lock = threading.Lock()
        self._users: Counter[PreparedPlan] = Counter()
        self.missing: frozenset[str] = frozenset()
        self._answered: frozenset[str] = frozenset()  # what ``current`` is the answer to
        self._is_working = False
        self._closed = False
        self._look_at = 0.0
        self._pause = _LOOK_SECONDS

    def hold(self, is_original: bool = False) -> PreparedPlan:
        """The current plan, or the original one, until it is dropped. Raises DEVICE_UNAVAILABLE once unloaded."""
        with self._lock:
            if self._closed:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
            plan = self.original if is_original else self.current
            self._users[plan] += 1
            return plan

    def drop(self, plan: PreparedPlan) -> None:
        """Hold a plan no more."""
        with self._lock:
            self._users[plan] -= 1
            is_unused = self._is_unused(plan)
        if is_unused:  # in a run, which is not to wait for a device that has stopped
            threading.Thread(target=plan.release, name="release-plan", daemon=True).start()

    def miss(self, devices: Collection[str]) -> None:
        """Devices were gone in a run. Returns at once."""
        if devices and self.original.planner.may_replan:
            with self._lock:
                self.missing = self.missing.union(devices)
                self._begin()

    def look(self) -> None:
        """See whether missing devices are back, at the start of a run. Returns at once."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._pause
        back = {device for device in self.missing if self.original.planner.is_there(device)}
        if back:
            with self._lock:
                self.missing -= back
                self._begin()

    def close(self) -> None:
        """Release the plans; one that is being prepared, when it is. Harmless when repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for plan in {self.current, self.original}:
            plan.release()

    def _begin(self) -> None:
        """Have the plan follow the devices; the lock is held."""
        if not self._is_working and not self._closed and self.missing != self._answered:
            self._is_working = True
            threading.Thread(target=self._follow, name="re-plan", daemon=True).start()

    def _follow(self) -> None:
        while True:
            with self._lock:
                missing = self.missing
                if self._closed or missing == self._answered:
                    self._is_working = False
                    return
            plan, answered = self._plan_without(missing)
            with self._lock:
                # What died meanwhile is still missing, and so is what came back and is of no use.
                self.missing = (self.missing - missing) | (self.missing & answered) | (answered - missing)
                unwanted = plan
                if not self._closed:
                    unwanted, self.current, self._answered = self.current, plan, answered
                is_unused = self._is_unused(unwanted)
            if is_unused:
                unwanted.release()

    def _plan_without(self, missing: frozenset[str]) -> tuple[PreparedPlan, frozenset[str]]:
        """The plan while these devices are missing, and which are, as far as it is known by then."""
        original = self.original
        if original.gone and not missing.isdisjoint(original.devices):
            return self._substitute(missing)
        try:
            for number in range(len(original.parts)):
                original.parts.living(number)
        except NnhalError as error:
            _log.info("a device is back and cannot be used yet", reason=str(error))
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            return self.current, self._answered | missing
        if self.current is not original:
            _log.info("the model runs by its first plan again")
        self._pause = _LOOK_SECONDS
        return original, missing - original.devices

    def _substitute(self, missing: frozenset[str]) -> tuple[PreparedPlan, frozenset[str]]:
        """A plan without these devices; the current one, which falls back in each run, where there is none."""
        planner, original = self.original.planner, self.original
        try:
            plan = planner.prepare(missing)
        except (NnhalError, PlacementError) as error:
            _log.info("the model cannot be planned without a device", missing=sorted(missing), reason=str(error))
            return self.current, missing
        if not original.gone:  # runs have had its parts prepared again meanwhile
            plan.release()
            return original, missing - original.devices
        _log.info("the model is planned anew", missing=sorted(missing))
        return plan, missing.union(device for device in plan.left_out if not planner.is_there(device))

    def _is_unused(self, plan: PreparedPlan) -> bool:
        """Whether a plan can be released; the lock is held."""
        if self._users[plan] > 0 or plan is self.current or plan is self.original:
            return False
        del self._users[plan]
        return True
