"""The plan that a loaded model runs by, which follows the devices as they come and go."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

from nnhal.errors import NnhalError, TransportError, without_frames
from nnhal.shares import act_for, acting_for, tenant
from nnhal.threads import BriefThread, LastingThread
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import PlacementError
from nnhal_service.runtime.devices.fatal_models import FatalModelError
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.substitutes import NO_SUBSTITUTES, Substitutes
from nnhal_service.unloaded import UnloadedError

_LOOK_SECONDS = 0.05
"""Between two checks for missing devices."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0
"""The pauses before a device is tried again that came back but could not be used, or has died again; they double."""
_UNTRUSTED_SECONDS = 30.0
"""The time that a death is remembered: the plan returns to a device that dies again within this after a pause only."""
_MOST_DEATHS = 4
"""Deaths in a row while a device prepares the model again, after which the model is planned without it."""
_LEAST_BYTES = 256 << 10
"""What a substitute counts at least: a model without constants takes memory on its devices too."""
_log = get_logger(__name__)


class ActivePlan:
    """``current`` is the plan that the model was loaded with (``original``), or one without the ``missing`` devices.

    A run that meets a dead device reports it. If there is a substitute without the device, that is current at once;
    else the run falls back on its own, while one thread at a time prepares a plan without the device. While devices are
    missing, runs check for them, and when they are back the original's parts are prepared again. Other plans than
    substitutes are released when no context holds them. No lock is held during a preparation. ``current`` and
    ``missing`` may be read at any time. Safe to use from several threads.
    """

    def __init__(self, original: PreparedPlan, changed: Callable[[], None] = lambda: None) -> None:
        """``changed`` is called, in a thread of its own, when another plan than before is the current one."""
        self._changed = changed
        self._client = tenant()
        self.original = original
        self.current = original
        self._lock = threading.Lock()
        self._users: Counter[PreparedPlan] = Counter()
        self.missing: frozenset[str] = frozenset()
        self._answered: frozenset[str] = frozenset()  # the missing devices that ``current`` was made for
        self._insurance, self._bytes_of_one = NO_SUBSTITUTES, 0
        self._substitutes: dict[frozenset[str], PreparedPlan] = {}
        self._impossible: set[frozenset[str]] = set()  # missing devices without which there is no plan
        self._worker: LastingThread | None = None
        self._closed = False
        self._look_at = 0.0
        self._pause = _LOOK_SECONDS
        self._deaths: Counter[str] = Counter()
        self._mistrust: dict[str, _Mistrust] = {}
        """Of devices that have died in runs."""
        self._is_outdated = False
        """True if a device has answered otherwise, after a restart, than when the original was planned."""
        # The restarts of the parts of both plans after which the devices were asked again.
        self._asked = self._asked_of_current = 0
        self.left_out: frozenset[str] = frozenset()
        """Devices that the model does without, since it has killed them."""
        self._why_left_out: dict[str, str] = {}
        self.miss({device for device in original.devices if original.planner.is_withdrawn(device)})

    def insure(self, substitutes: Substitutes) -> None:
        """Have a substitute for each device of the plan, as far as there is memory. Returns at once."""
        if self.original.planner.may_replan:
            self._insurance, self._bytes_of_one = substitutes, max(self.original.constant_bytes, _LEAST_BYTES)
            substitutes.insure(self)

    @property
    def substitute_bytes(self) -> int:
        """Return the bytes that its substitutes count: those of the model's constants for each of them."""
        return len(self._substitutes) * self._bytes_of_one

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
        with self._lock:
            self._users[plan] -= 1
            is_unused = self._is_unused(plan)
        if is_unused and not BriefThread(plan.release, "release-plan").started():
            plan.release()  # else a run, in which this may be, would wait for a device that has stopped

    def miss(self, devices: Collection[str]) -> None:
        """Note that devices were gone in a run, or are to be done without. Returns at once."""
        if devices and self.original.planner.may_replan:
            with self._lock:
                self._note_missing(devices)
                is_replaced = self._substitute_now()
                self._begin()
            if is_replaced and not BriefThread(self._changed, "follow-substitute").started():
                self._changed()

    def _note_missing(self, devices: Collection[str]) -> None:
        """Note that devices are gone; the lock is held."""
        for name in set(devices) - self.missing:
            self._mistrust[name] = _Mistrust.after(self._mistrust.get(name))
        self.missing = self.missing.union(devices)

    @property
    def may_change(self) -> bool:
        """Return whether there is something to ``look`` at: missing devices, or those that were restarted."""
        original, current = self.original, self.current
        if original.parts.restarts == self._asked and current.parts.restarts == self._asked_of_current:
            return bool(self.missing)
        return bool(self.missing) or original.planner.may_replan

    @property
    def _is_unasked(self) -> bool:
        restarts, of_current = self.original.parts.restarts, self.current.parts.restarts
        has_restarted = restarts != self._asked or of_current != self._asked_of_current
        return has_restarted and self.original.planner.may_replan

    def _note_asked(self) -> None:
        self._asked, self._asked_of_current = self.original.parts.restarts, self.current.parts.restarts

    def _put_in_force(self, plan: PreparedPlan) -> None:
        """Make a plan the current one, on devices as they were when it was prepared; the lock is held."""
        self.current, self._asked_of_current = plan, plan.parts.restarts

    def look(self, again: bool = False) -> None:
        """Check whether missing devices are back; called at the start of a run. Returns at once.

        A check soon after the last one is left out, unless it is to be done ``again``.
        """
        now = time.monotonic()
        if now < self._look_at and not again:
            return
        self._look_at = now + self._pause
        back = {name for name in self.missing - self.left_out if self._is_back(name, now)}
        if back or self._is_unasked:
            with self._lock:
                self.missing -= back
                self._begin()

    def _is_back(self, name: str, now: float) -> bool:
        """True if a device is there, and is to be used again: each return costs a plan, and each death the next one."""
        mistrust = self._mistrust.get(name)
        return self.original.planner.is_there(name) and (mistrust is None or now > mistrust.until)

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
            plans = {self.current, self.original, *self._substitutes.values()}
            self._insurance.give_back(self.substitute_bytes)
            self._substitutes.clear()
        for plan in plans:
            plan.release()

    def prepare_substitute(self) -> bool:
        """Prepare one substitute that is wanted, or prepare it again where its devices have died and are back.

        Returns whether another may be wanted. None is prepared as long as a device is gone, since the plan would do
        without that device too.
        """
        with acting_for(self._client):
            return self._prepare_wanted()

    def _prepare_wanted(self) -> bool:
        self.look()
        are_there = self._are_there()
        with self._lock:
            drained = frozenset(filter(self.original.planner.is_withdrawn, self.missing))
            if self._closed or self._worker is not None or self.missing != drained or not are_there:
                return False
            wanted = [drained | {device} for device in sorted(self.current.devices)]
            unwanted = [self._substitutes[missing] for missing in self._substitutes if missing not in wanted]
            self._substitutes = {key: plan for key, plan in self._substitutes.items() if key in wanted}
            lacking = [key for key in wanted if key not in self._substitutes and key not in self._impossible]
            stale = [plan for plan in self._substitutes.values() if plan.gone]
            unused = [plan for plan in unwanted if self._is_unused(plan)]
        if unwanted:
            self._insurance.give_back(len(unwanted) * self._bytes_of_one)
        for plan in unused:
            plan.release()
        try:
            if stale:
                for number in range(len(stale[0].parts)):
                    stale[0].parts.living(number)
                return True
            return bool(lacking) and self._prepare_substitute(lacking[0])
        except NnhalError as error:
            _log.info("a substitute is not prepared", reason=str(error))
            return False  # a device has died; it is tried again later

    def _prepare_substitute(self, missing: frozenset[str]) -> bool:
        """Prepare a plan without these devices, and keep it. Raises NnhalError if another device dies meanwhile."""
        if not self._insurance.take(self._bytes_of_one):
            return False
        plan, is_wanted = None, False
        try:
            try:
                plan = self.original.planner.prepare(missing)
            except (NnhalError, PlacementError) as error:
                if are_there := self._are_there():
                    _log.info("there is no plan without a device", missing=sorted(missing), reason=str(error))
                    self._impossible.add(missing)
                return are_there
            are_there = self._are_there()
            with self._lock:
                is_wanted = are_there and not self._closed and missing not in self._substitutes
                if is_wanted:
                    self._substitutes[missing] = plan
        finally:
            if not is_wanted:
                self._insurance.give_back(self._bytes_of_one)
        if not is_wanted:
            plan.release()
        return is_wanted

    def _are_there(self) -> bool:
        """Return whether all devices that were asked about the model are there, or drain."""
        planner = self.original.planner
        return all(planner.is_there(name) or planner.is_withdrawn(name) for name in self.original.survey.descriptions)

    def _substitute_now(self) -> bool:
        """Make the substitute for the missing devices the current plan, if there is one; the lock is held."""
        substitute = self._substitutes.get(self.missing)
        if self.missing == self._answered or substitute is None or substitute.gone or self._closed:
            return False
        if all(map(self.original.planner.is_withdrawn, self.missing)):  # there is time for a plan that says so
            return False
        _log.info("the model runs by a substitute", missing=sorted(self.missing))
        self._put_in_force(substitute)
        self._answered = self.missing
        return True

    def _begin(self) -> None:
        """Start the thread that follows the devices, if it is needed; the lock is held."""
        if self._worker is None and not self._closed and (self.missing != self._answered or self._is_unasked):
            self._worker = LastingThread(self._follow, "re-plan").started()

    def _follow(self) -> None:
        act_for(self._client)
        while True:
            with self._lock:
                is_replaced = self._substitute_now()
                missing, answered = self.missing, self._answered
                if self._closed or (missing == answered and not is_replaced and not self._is_unasked):
                    self._worker = None
                    return
            if is_replaced:
                self._changed()
                continue
            left_out = self.left_out
            plan, without = self._plan_without(missing)
            died = frozenset() if plan is None else plan.gone
            with self._lock:
                unwanted, is_taken = plan, False
                if plan is None:
                    # Devices that came back but cannot be used are missing again.
                    if self._answered is answered:
                        self.missing |= without - missing
                        self._answered = without
                elif died or self._closed:
                    self._note_missing(died)
                else:
                    # Devices that died meanwhile are still missing.
                    self.missing = (self.missing - missing) | (self.missing & without) | (without - missing)
                    unwanted, self._answered = self.current, without
                    self._put_in_force(plan)
                    is_taken = unwanted is not plan
                is_unused = unwanted is not None and self._is_unused(unwanted)
            if is_taken or left_out != self.left_out:
                self._changed()
            if unwanted is not None and is_unused:
                unwanted.release()

    def _plan_without(self, missing: frozenset[str]) -> tuple[PreparedPlan | None, frozenset[str]]:
        """The plan to use while these devices are missing, and the devices that it was made without.

        None if there is no other than the current one, which falls back in each run.
        """
        original = self.original
        is_back = bool(self._answered - missing) or self._is_unasked
        self._note_asked()
        if self._is_outdated or (not missing.isdisjoint(original.devices) and not self._may_return()):
            if is_back:
                self._ask_again()
            return self._replanned(missing)
        try:
            if is_back and self._ask_again():
                return self._replanned(missing)
            for number in range(len(original.parts)):
                self._prepare_again(number)
        except NnhalError as error:
            _log.info("a device is back but cannot be used yet", reason=str(error))
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            return None, self._answered | missing
        if self.current is not original:
            _log.info("the model runs by its original plan again")
        self._pause = _LOOK_SECONDS
        self._note_asked()
        self._deaths.clear()
        return original, missing - original.devices

    def _ask_again(self) -> bool:
        """Ask devices that are back about the model. Returns whether a driver was changed: the original is outdated."""
        try:
            is_other = self.original.planner.ask_again()
        except (NnhalError, LookupError) as error:
            _log.info("a device is back but cannot be asked", reason=str(error))
            return False
        if is_other:
            _log.warning("a device answers otherwise than before its restart; the model is planned anew")
            with self._lock:
                self._is_outdated = True
                stale = tuple(self._substitutes.values())
                self._substitutes.clear()
                self._impossible.clear()
                unused = [plan for plan in stale if self._is_unused(plan)]
            self._insurance.give_back(len(stale) * self._bytes_of_one)
            for plan in unused:
                plan.release()
        return is_other

    def _prepare_again(self, number: int) -> None:
        """Have a step's part prepared again if its device has died, and count if it dies of that. Raises NnhalError."""
        name = self.original.parts[number].member.name
        was_there = self.original.planner.is_there(name)
        try:
            self.original.parts.living(number)
        except FatalModelError as error:
            self._leave_out(name, error.message)
            raise
        except TransportError:
            if was_there:
                self._deaths[name] += 1
            if self._deaths[name] >= _MOST_DEATHS:
                self._leave_out(name, f"which has died {_MOST_DEATHS} times in a row while it prepared the model")
            raise

    def _leave_out(self, device: str, why: str) -> None:
        self._why_left_out[device] = why
        self.left_out |= {device}
        _log.warning("the model does without a device, which dies of it", device=device, reason=why)

    def in_words(self, device: str) -> str:
        """Return the name of a device that the model does without, with the reason unless the device is simply gone."""
        return f"{device}, {self._why_left_out[device]}" if device in self.left_out else device

    def _replanned(self, missing: frozenset[str]) -> tuple[PreparedPlan | None, frozenset[str]]:
        """A new plan without these devices; None if there is none."""
        planner, original = self.original.planner, self.original
        try:
            plan = planner.prepare(missing)
        except (NnhalError, PlacementError) as error:
            reason = str(without_frames(error))
            _log.info("the model cannot be planned without a device", missing=sorted(missing), reason=reason)
            return None, missing
        if self._may_return() and not self._is_outdated:  # its parts have been prepared again meanwhile
            plan.release()
            return original, missing - original.devices
        _log.info("the model is re-planned", missing=sorted(missing))
        return plan, missing.union(device for device in plan.choice.left_out if not planner.is_there(device))

    def _may_return(self) -> bool:
        """Return whether the original plan can run: none of its devices is gone, or to be done without."""
        original = self.original
        return not original.gone and not any(map(original.planner.is_withdrawn, original.devices))

    def _is_unused(self, plan: PreparedPlan) -> bool:
        """Return whether a plan can be released; the lock is held."""
        kept = (self.current, self.original, *self._substitutes.values())
        if self._users[plan] > 0 or plan in kept:
            return False
        del self._users[plan]
        return True


class _Mistrust(NamedTuple):
    """Memory of a device's deaths in runs, by ``time.monotonic``."""

    died: float
    pause: float
    """The time that the device is not returned to after its last death, in seconds."""

    @property
    def until(self) -> float:
        return self.died + self.pause

    @classmethod
    def after(cls, before: _Mistrust | None) -> _Mistrust:
        """Return what is remembered after one more death."""
        now = time.monotonic()
        if before is None or now > before.died + _UNTRUSTED_SECONDS:
            return cls(now, 0.0)
        return cls(now, min(2 * before.pause or _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))
