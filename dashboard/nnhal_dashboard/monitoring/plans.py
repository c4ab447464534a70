"""The plans of models, as the framework explains them, and what they were a while ago."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from nnhal.errors import HalError
from nnhal.remote.admin import FrameworkAdmin
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_admin_pb2, framework_pb2
from nnhal_client.explanation import Explanation, explanation_from_wire

_KEPT_OF_EACH = 8
"""Plans of one model that are kept."""
_MOST_SKETCHES = 4
"""Plans that may be tried at a time. Others are refused, so that pages which try plans hold up no other page."""
_KEPT = 64
"""Plans that are kept in all; the one that was asked for longest ago is forgotten first."""


@dataclass(frozen=True, slots=True, order=True)
class PlanSubject:
    """A loaded model."""

    model: str
    version: str = ""
    """Empty for the newest that is ready."""
    session: str = ""
    """The public id of the session whose model it is; empty for one of the repository."""

    @property
    def target(self) -> framework_admin_pb2.PlanTarget:
        """Return the same in the words of the framework."""
        return framework_admin_pb2.PlanTarget(model=self.model, version=self.version, session=self.session)

    def may_be(self, other: PlanSubject) -> bool:
        """Return whether it is the same model; the newest version may be named, or left open."""
        is_named = self.version and other.version and self.version != other.version
        return (self.model, self.session) == (other.model, other.session) and not is_named

    @property
    def title(self) -> str:
        """Its name for readers."""
        of = f" of session {self.session}" if self.session else ""
        return f"{self.model} {self.version}".rstrip() + of


@dataclass(frozen=True, slots=True, eq=False)
class KnownPlan:
    """An explained plan. There is one for each explanation, so that what is made of it can be kept with it."""

    key: str
    """A digest of what it says."""
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Facts from which a plan by which a model ran is made again."""

    at_ns: int
    """When it was first seen, or from when on the model ran by it, in nanoseconds since the epoch."""
    pins: tuple[tuple[str, str], ...]
    """Matches and devices."""
    allowed: tuple[str, ...]
    """The devices that it could have run on."""
    steps: tuple[str, ...]
    """The device of each step."""
    modelled_ns: float

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it runs on."""
        return tuple(dict.fromkeys(self.steps))

    @property
    def likeness(self) -> object:
        """Return what two records of one plan have in common."""
        return self.pins, sorted(self.allowed), self.steps


@dataclass(frozen=True, slots=True)
class DatedPlan:
    """A plan that a model ran by, as it was explained then."""

    subject: PlanSubject
    plan: KnownPlan
    record: PlanRecord


@dataclass(frozen=True, slots=True)
class RunningPlan:
    """The plan that a model runs by."""

    plan: KnownPlan
    pins: tuple[tuple[str, str], ...]
    """Matches and devices."""
    missing: tuple[str, ...]
    """Devices that are gone, so that it is not the plan that it was loaded with."""
    prepared_models: tuple[int, ...]
    """The handle of each step's prepared model on its device; 0 for none."""
    history: tuple[PlanRecord, ...] = ()
    """The plans before it as the framework tells them, whoever has changed them."""


class PlanBook:
    """Asks the framework for plans, and keeps the last ones of each model. Safe to use from several threads."""

    def __init__(self, framework: Callable[[], FrameworkAdmin]) -> None:
        self._framework = framework
        self._lock = threading.Lock()
        self._sketches = threading.BoundedSemaphore(_MOST_SKETCHES)
        self._sketching = threading.Lock()
        self._known: OrderedDict[str, KnownPlan] = OrderedDict()
        self._dated: OrderedDict[PlanSubject, deque[DatedPlan]] = OrderedDict()
        self._unchanged: OrderedDict[PlanSubject, tuple[object, RunningPlan]] = OrderedDict()

    def running(self, subject: PlanSubject) -> RunningPlan:
        """Ask for the plan that a model runs by, and keep it. Raises NnhalError."""
        answer = self._framework().explain(subject.target)
        plan = self._take(answer.explanation)
        pins = _pins(answer.pins)
        with self._lock:
            dated = self._dated.setdefault(subject, deque(maxlen=_KEPT_OF_EACH))
            self._dated.move_to_end(subject)
            if not dated or dated[-1].plan is not plan:
                dated.append(DatedPlan(subject, plan, _record(plan.explanation, pins)))
            while len(self._dated) > _KEPT:  # models of sessions that are over, which all may have run by one plan
                self._dated.popitem(last=False)
        history = tuple(
            PlanRecord(each.since_ns, _pins(each.pins), tuple(each.devices), tuple(each.steps), each.modelled_ns)
            for each in answer.earlier
        )
        return RunningPlan(plan, pins, tuple(answer.missing), tuple(answer.prepared_models), history)

    def unchanged(self, subject: PlanSubject, state: object) -> RunningPlan:
        """Return the plan that a model runs by; ask for it only if ``state`` differs from the last time.

        Raises as ``running`` does.
        """
        with self._lock:
            known = self._unchanged.get(subject)
        if known is not None and known[0] == state:
            return known[1]
        running = self.running(subject)
        with self._lock:
            self._unchanged[subject] = state, running
            self._unchanged.move_to_end(subject)
            while len(self._unchanged) > _KEPT:
                self._unchanged.popitem(last=False)
        return running

    def sketched(self, subject: PlanSubject, pins: Sequence[tuple[str, str]], devices: Sequence[str] = ()) -> KnownPlan:
        """Ask how a model would run with other pins, over these devices if some are given. Raises NnhalError.

        The framework makes one such plan at a time, since requests need its processor. Raises
        RESOURCE_EXHAUSTED_TRANSIENT if too many wait for theirs.
        """
        wire = [framework_pb2.Pin(match=match, device=device) for match, device in pins]
        if not self._sketches.acquire(blocking=False):
            raise HalError(
                ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                f"{_MOST_SKETCHES} plans are being tried already; load the page again in a while",
            )
        try:
            with self._sketching:
                answer = self._framework().plan(subject.target, wire, devices)
        finally:
            self._sketches.release()
        return self._take(answer)

    def earlier(self, subject: PlanSubject) -> list[DatedPlan]:
        """Return the plans of a model that are kept, the newest first."""
        with self._lock:
            dated = [each for own in self._dated.values() for each in own if subject.may_be(each.subject)]
            kept = [each for each in dated if self._known.get(each.plan.key) is each.plan]
        return sorted(kept, key=lambda each: -each.record.at_ns)

    def modelled_ns(self, model: framework_admin_pb2.ServedModelState) -> float:
        """Return the modelled time of the last plan that was seen of a model; 0 if none was.

        The framework knows none of a file that runs as it is until somebody looks at its plan.
        """
        with self._lock:
            for version in (model.version, ""):
                dated = self._dated.get(PlanSubject(model.name, version))
                if dated:
                    return max(dated[-1].plan.explanation.modelled_ns, 0.0)
        return 0.0

    def _take(self, message: framework_pb2.ModelExplanation) -> KnownPlan:
        key = sha256(message.SerializeToString(deterministic=True)).hexdigest()[:16]
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        made = KnownPlan(key, explanation_from_wire(message))
        with self._lock:
            plan = self._known.setdefault(key, made)
            while len(self._known) > _KEPT:
                gone, _ = self._known.popitem(last=False)
                self._forget(gone)
            return plan

    def _forget(self, key: str) -> None:
        for subject, dated in list(self._dated.items()):
            left = [each for each in dated if each.plan.key != key]
            if len(left) == len(dated):
                continue
            if left:
                self._dated[subject] = deque(left, _KEPT_OF_EACH)
            else:
                del self._dated[subject]


def _pins(pins: Iterable[framework_pb2.Pin]) -> tuple[tuple[str, str], ...]:
    return tuple((pin.match, pin.device) for pin in pins)


def _record(explanation: Explanation, pins: tuple[tuple[str, str], ...]) -> PlanRecord:
    allowed = tuple(device.name for device in explanation.devices)
    return PlanRecord(
        time.time_ns(), pins, allowed, tuple(step.device for step in explanation.steps), explanation.modelled_ns
    )
