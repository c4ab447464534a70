"""The faults of a device: which of them a call meets, and how often each has happened."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from fnmatch import fnmatchcase
from typing import NamedTuple

from nnhal.device_calls import EXECUTE, LAUNCHES, PREPARE
from nnhal.errors import HalError, invalid_argument
from nnhal.types import ErrorStatus
from nnhal_devices.faults.model_facts import ModelFacts, ModelLayer
from nnhal_hosting.faults import (
    MAX_FAULTS,
    DelayFault,
    ErrorFault,
    Fault,
    FaultDocument,
    LayerCondition,
    MemoryFault,
    ShrunkSramFault,
)


class ServedCall(NamedTuple):
    """One call, from its arrival on until it has been answered and its work is done."""

    method: str
    """As conditions of faults name it."""

    session: str = ""
    """The public id of its session; empty for a call without one."""

    client: str = ""
    """What the client calls itself."""

    is_wanted: Callable[[], bool] = lambda: True
    """True if the client is still there."""

    @contextmanager
    def served(self) -> Iterator[None]:
        """Make it the call of this thread while a block runs."""
        CURRENT.set(self)
        LATER.set(None)
        try:
            yield
        finally:
            CURRENT.set(NO_CALL)


NO_CALL = ServedCall("")
RAN: ContextVar[ModelFacts | None] = ContextVar("ran", default=None)
"""The model that was executed last in this thread."""
LATER: ContextVar[Sequence[ActiveFault] | None] = ContextVar("later", default=None)
"""The faults of the answer, or of the fence, that the execution in this thread has met; None if there was none."""
CURRENT: ContextVar[ServedCall] = ContextVar("call", default=NO_CALL)
"""The call that this thread serves, or the one that the thread which started it serves."""

_EXECUTE, _LAUNCHES, _PREPARE = frozenset(EXECUTE), frozenset(LAUNCHES), frozenset(PREPARE)


class Point(Enum):
    """Point in a call at which a fault acts."""

    CALL = "call"
    """Before anything is done for it."""
    PREPARE = "prepare"
    """In place of the driver that prepares a model, or before it does."""
    COMPILE = "compile"
    """When the driver is about to compile a model, or to say how it would."""
    LAUNCH = "launch"
    """Before an execution is accepted."""
    BIND = "bind"
    """When memory is bound to a prepared model."""
    RUN = "run"
    """In place of the driver that executes, or before it does."""
    OUTCOME = "outcome"
    """When the driver has executed."""
    RESULT = "result"
    """When the outcome has been checked, and is about to be reported."""
    ANSWER = "answer"
    """When the answer is about to be sent on a channel."""
    FENCE = "fence"
    """When a launch is about to signal."""
    SUPPORT = "support"
    """When the driver has said which operations it supports."""
    CACHE = "cache"
    """Before the files of a cache are read."""


_POINTS = {
    "answer": Point.ANSWER,
    "damaged_cache": Point.CACHE,
    "fence": Point.FENCE,
    "shapes": Point.RESULT,
    "slow_clock": Point.OUTCOME,
    "values": Point.OUTCOME,
    "withdrawn": Point.SUPPORT,
}
"""Where faults act that act at one point only, by their kind."""


class ActiveFault:
    def __init__(self, fault: Fault, name: str) -> None:
        self.fault = fault
        self.name = name
        self.methods = fault.methods
        self.source = random.Random(fault.seed)
        """Of all that is drawn for it. Used with the lock of its set only."""
        self.released = threading.Event()
        """Set when it is removed: what it has hang goes on."""
        self.held: list[Callable[[], None]] = []
        """What is done when it is removed: signals of fences that it has kept back."""
        self.met = 0
        self.injected = 0
        self._since = time.monotonic()

    def is_about(self, point: Point, call: ServedCall, facts: ModelFacts | None) -> bool:
        """Return whether a call meets its condition, apart from what counts calls or is drawn."""
        fault = self.fault
        if call.method not in self.methods or point is not point_of(fault, call.method):
            return False
        if fault.session and not (_matches(call.session, fault.session) or _matches(call.client, fault.session)):
            return False
        if (fault.model or fault.operation) and facts is None:
            return False
        if isinstance(fault, ShrunkSramFault) and point is not Point.COMPILE and _fits(facts, fault):
            return False
        if facts is not None:
            if fault.model and not _matches(facts.fingerprint, fault.model):
                return False
            if fault.operation and not any(_matches(name, fault.operation) for name in facts.operations):
                return False
        if isinstance(fault, LayerCondition) and fault.layer and not layers_of_fault(fault, facts):
            return False
        passed = time.monotonic() - self._since - fault.after_s
        return passed >= 0 and not (fault.for_s and passed >= fault.for_s)

    def happens(self) -> bool:
        """Count a call that meets its condition, and return whether the fault happens."""
        fault = self.fault
        self.met += 1
        drawn = fault.probability == 1.0 or self.source.random() < fault.probability
        if (fault.nth and self.met != fault.nth) or (fault.every and self.met % fault.every):
            return False
        if not drawn or (fault.times and self.injected >= fault.times):
            return False
        self.injected += 1
        return True


class CountedFault(NamedTuple):
    """A fault, and how often it has happened."""

    name: str
    fault: Fault
    met: int
    injected: int


class FaultSet:
    """The faults of a device, in the order in which a call meets them. Safe to use from several threads."""

    def __init__(self, device: str, document: FaultDocument | None = None) -> None:
        """``device`` is its name; of the ``document``, faults that are about other devices are left out."""
        self._device = device
        self._lock = threading.Lock()
        self._active: tuple[ActiveFault, ...] = ()
        self._numbers: dict[str, int] = {}
        self._objection: Callable[[Fault], str] = _no_objection
        self.injected = 0
        """How many have been injected, those of faults that were removed included."""
        if document is not None:
            self.set(document)

    @property
    def is_empty(self) -> bool:
        return not self._active

    def set(self, document: FaultDocument) -> list[str]:
        """Add those of the faults that are about this device, and return their names.

        One that has the name of another replaces it. Raises RESOURCE_EXHAUSTED_PERSISTENT if there would be too many,
        and INVALID_ARGUMENT if none is about this device, or one cannot be on it.
        """
        own = document.of(self._device).fault
        if document.fault and not own:
            invalid_argument(f"none of the {len(document.fault)} faults is about this device, {self._device!r}")
        with self._lock:
            added = [ActiveFault(fault, fault.name or self._numbered(fault.what)) for fault in own]
            for each in added:
                self._require_possible(each)
            names = [each.name for each in added]
            kept = [each for each in self._active if each.name not in names]
            if len(kept) + len(added) > MAX_FAULTS:
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT,
                    f"{len(kept)} faults are set and {len(added)} more were given, at most {MAX_FAULTS} are allowed",
                )
            replaced = [each for each in self._active if each.name in names]
            self._active = (*kept, *added)
        _release(replaced)
        return names

    def suit(self, objection: Callable[[Fault], str]) -> None:
        """Take only faults that the device can have from now on: ``objection`` says why not, and is empty if it can.

        Raises INVALID_ARGUMENT if one that is set cannot be.
        """
        self._objection = objection
        for each in self._active:
            self._require_possible(each)

    def _require_possible(self, active: ActiveFault) -> None:
        why = self._objection(active.fault)
        if why:
            invalid_argument(f"fault {active.name!r} cannot be on {self._device!r}: {why}")

    def clear(self, names: Collection[str] = ()) -> int:
        """Remove faults by name, all if there are no names, and return how many. What they have hang goes on.

        Raises INVALID_ARGUMENT for an unknown name; then none is removed.
        """
        with self._lock:
            known = {each.name for each in self._active}
            unknown = sorted(set(names) - known)
            if unknown:
                listed = ", ".join(sorted(known)) or "none"
                invalid_argument(f"no fault is called {unknown[0]!r}; there are: {listed}")
            removed = [each for each in self._active if not names or each.name in names]
            self._active = tuple(each for each in self._active if each not in removed)
        _release(removed)
        return len(removed)

    def states(self) -> list[CountedFault]:
        """Return all faults and how often each has happened."""
        with self._lock:
            return [CountedFault(each.name, each.fault, each.met, each.injected) for each in self._active]

    def met(self, point: Point, facts: ModelFacts | None = None) -> Sequence[ActiveFault]:
        """Return the faults that happen at a point of the call that is being served in this thread."""
        if not self._active:
            return ()
        call = CURRENT.get()
        found = [each for each in self._active if each.is_about(point, call, facts)]
        if not found:
            return ()
        with self._lock:
            happening = [each for each in found if each.happens()]
            self.injected += len(happening)
        return happening

    def drawn_seconds(self, active: ActiveFault) -> float:
        """Draw the seconds of a delay."""
        with self._lock:
            return active.fault.drawn_seconds(active.source) if isinstance(active.fault, DelayFault) else 0.0

    def drawn_bits(self, active: ActiveFault, count: int, flips: int) -> list[int]:
        """Draw the numbers of bits to flip, of ``count`` bits."""
        with self._lock:
            return active.source.sample(range(count), min(flips, count))

    def hold(self, active: ActiveFault, act: Callable[[], None]) -> None:
        """Do something when a fault is removed, or now if it has been."""
        with self._lock:
            if active in self._active:
                active.held.append(act)
                return
        act()

    def _numbered(self, what: str) -> str:
        """A name that no fault has had yet."""
        taken = {each.name for each in self._active}
        while True:
            number = self._numbers[what] = self._numbers.get(what, 0) + 1
            if f"{what}-{number}" not in taken:
                return f"{what}-{number}"


def later_of(faults: FaultSet, point: Point, facts: ModelFacts | None) -> Sequence[ActiveFault]:
    """Return the faults that happen to the answer, or the fence, of the execution in this thread.

    The execution has met them, so that it could note them. If there was none, the call meets them now.
    """
    met = LATER.get()
    LATER.set(None)
    return faults.met(point, facts) if met is None else met


def point_of(fault: Fault, method: str) -> Point:
    """Return where a fault acts in a call of a method."""
    always = Point.OUTCOME if isinstance(fault, LayerCondition) and fault.layer else _POINTS.get(fault.what)
    if always is not None:
        return always
    if isinstance(fault, MemoryFault):
        return Point.CALL if method == "Device.Allocate" else Point.BIND
    if method in _EXECUTE:
        return Point.LAUNCH if method in _LAUNCHES and isinstance(fault, ErrorFault | ShrunkSramFault) else Point.RUN
    if isinstance(fault, ShrunkSramFault):
        return Point.COMPILE
    return Point.PREPARE if method in _PREPARE else Point.CALL


def layers_of_fault(fault: LayerCondition, facts: ModelFacts | None) -> list[ModelLayer]:
    """The layers of a model that a fault is about."""
    layers = () if facts is None else facts.layers()
    return [each for each in layers if any(_matches(name, fault.layer) for name in (each.type, *each.names))]


def _fits(facts: ModelFacts | None, fault: ShrunkSramFault) -> bool:
    return facts is None or facts.working_bytes <= fault.bytes


def _matches(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _no_objection(fault: Fault) -> str:
    del fault
    return ""


def _release(faults: Sequence[ActiveFault]) -> None:
    for each in faults:
        each.released.set()
        for act in each.held:
            act()
