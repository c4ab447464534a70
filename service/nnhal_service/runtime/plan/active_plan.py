"""The plan that a loaded model runs by, which follows the devices as they come and go."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection

from nnhal.errors import NnhalError
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import PlacementError
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.unloaded import UnloadedError

_LOOK_SECONDS = 0.05
"""Between two checks for missing devices."""
_LONGEST_PAUSE_SECONDS = 5.0
"""The longest pause before a device that came back but could not be used is tried again; pauses double."""
_log = get_logger(__name__)


class ActivePlan:
    """``current`` is the plan that the model was loaded with (``original``), or one without the ``missing`` devices.

    A run that meets a dead device reports it and falls back on its own; one thread at a time then prepares a plan
    without the device. While devices are missing, runs check for them, and when they are back the original's parts are
    prepared again. Other plans are released when no context holds them. No lock is held during a preparation.
    ``current`` and ``missing`` may be read at any time. Safe to use from several threads.
    """

    def __init__(self, original: PreparedPlan, changed: Callable[[], None] = lambda: None) -> None:
        """``changed`` is called, in a thread of its own, when another plan than before is the current one."""
        self._changed = changed
        self.original = original
        self.current = original
        self._lock = threading.Lock()
        self._users: Counter[PreparedPlan] = Counter()
        self.missing: frozenset[str] = frozenset()
        self._answered: frozenset[str] = frozenset()  # the missing devices that ``current`` was made for
        self._worker: threading.Thread | None = None
        self._closed = False
        self._look_at = 0.0
        self._pause = _LOOK_SECONDS
        self.miss({device for device in original.devices if original.planner.is_withdrawn(device)})

    def hold(self, is_original: bool = False) -> PreparedPlan:
        """Hold the current plan, or the original, until ``drop``. Raises DEVICE_UNAVAILABLE once unloaded."""
        with self._lock:
            if self._closed:
                raise UnloadedError
            plan = self.original if is_original else self.current
            self._users[plan] += 1
            return plan

    def hold_too(self, plan: PreparedPlan) -> None:
        """Hold a plan once more that somebody holds. Raises as ``hold``."""
        with self._lock:
            if self._closed:
                raise UnloadedError
            self._users[plan] += 1

    def drop(self, plan: PreparedPlan) -> None:
        """Release a hold on a plan."""
        with self._lock:
            self._users[plan] -= 1
            is_unused = self._is_unused(plan)
        if is_unused:  # this may be in a run, which must not wait for a device that has stopped
            threading.Thread(target=plan.release, name="release-plan", daemon=True).start()

    def miss(self, devices: Collection[str]) -> None:
        """Note that devices were gone in a run, or are to be done without. Returns at once."""
        if devices and self.original.planner.may_replan:
            with self._lock:
                self.missing = self.missing.union(devices)
                self._begin()

    def look(self, again: bool = False) -> None:
        """Check whether missing devices are back; called at the start of a run. Returns at once.

        A check soon after the last one is left out, unless it is to be done ``again``.
        """
        now = time.monotonic()
        if now < self._look_at and not again:
            return
        self._look_at = now + self._pause
        back = {device for device in self.missing if self.original.planner.is_there(device)}
        if back:
            with self._lock:
                self.missing -= back
                self._begin()

    def settle(self, seconds: float) -> None:
        """Wait for a plan that is being prepared, for so many seconds at most."""
        with self._lock:
            worker = self._worker
        if worker is not None:
            worker.join(seconds)

    def close(self) -> None:
        """Release the plans, and one that is being prepared when it is ready. Harmless if repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for plan in {self.current, self.original}:
            plan.release()

    def _begin(self) -> None:
        """Start the thread that follows the devices, if it is needed; the lock is held."""
        if self._worker is None and not self._closed and self.missing != self._answered:
            self._worker = threading.Thread(target=self._follow, name="re-plan", daemon=True)
            self._worker.start()

    def _follow(self) -> None:
        while True:
            with self._lock:
                missing = self.missing
                if self._closed or missing == self._answered:
                    self._worker = None
                    return
            plan, answered = self._plan_without(missing)
            with self._lock:
                # Devices that died meanwhile are still missing, and so are those that came back but cannot be used.
                self.missing = (self.missing - missing) | (self.missing & answered) | (answered - missing)
                unwanted = plan
                if not self._closed:
                    unwanted, self.current, self._answered = self.current, plan, answered
                is_unused = self._is_unused(unwanted)
            if plan is not unwanted:
                self._changed()
            if is_unused:
                unwanted.release()

    def _plan_without(self, missing: frozenset[str]) -> tuple[PreparedPlan, frozenset[str]]:
        """The plan to use while these devices are missing, and the devices that it was made without."""
        original = self.original
        if not missing.isdisjoint(original.devices) and not self._may_return():
            return self._substitute(missing)
        try:
            for number in range(len(original.parts)):
                original.parts.living(number)
        except NnhalError as error:
            _log.info("a device is back but cannot be used yet", reason=str(error))
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            return self.current, self._answered | missing
        if self.current is not original:
            _log.info("the model runs by its original plan again")
        self._pause = _LOOK_SECONDS
        return original, missing - original.devices

    def _substitute(self, missing: frozenset[str]) -> tuple[PreparedPlan, frozenset[str]]:
        """A plan without these devices; the current one, which falls back in each run, if there is none."""
        planner, original = self.original.planner, self.original
        try:
            plan = planner.prepare(missing)
        except (NnhalError, PlacementError) as error:
            _log.info("the model cannot be planned without a device", missing=sorted(missing), reason=str(error))
            return self.current, missing
        if self._may_return():  # its parts have been prepared again meanwhile
            plan.release()
            return original, missing - original.devices
        _log.info("the model is re-planned", missing=sorted(missing))
        return plan, missing.union(device for device in plan.left_out if not planner.is_there(device))

    def _may_return(self) -> bool:
        """Whether the original plan can run: none of its devices is gone, or to be done without."""
        original = self.original
        return not original.gone and not any(map(original.planner.is_withdrawn, original.devices))

    def _is_unused(self, plan: PreparedPlan) -> bool:
        """Whether a plan can be released; the lock is held."""
        if self._users[plan] > 0 or plan is self.current or plan is self.original:
            return False
        del self._users[plan]
        return True
