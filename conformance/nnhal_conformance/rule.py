"""Type of a rule: one sentence about a device process, the rows of the contract that it shows, and how it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from nnhal.errors import DeadObjectError, HalError, MissingMethodError, NnhalError, TransportError
from nnhal.types import ErrorStatus

if TYPE_CHECKING:
    from nnhal_conformance.device import Subject

T = TypeVar("T")
Ask = TypeVar("Ask", bound=Callable[..., object])
INVALID, FAILURE = ErrorStatus.INVALID_ARGUMENT, ErrorStatus.GENERAL_FAILURE
FULL = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)


class BrokenRuleError(NnhalError):
    """The device did something else than the contract says. The message says what was got and what was expected."""


class NotOfferedError(NnhalError):
    """The device does not offer what a rule is about, and need not. The message says what follows from that."""


class UnservedMethodError(MissingMethodError):
    """The device does not serve a method, which is named."""

    def __init__(self, method: str) -> None:
        super().__init__(f"{method} is not served (gRPC's UNIMPLEMENTED), expected an answer")
        self.method = method


@dataclass(frozen=True, slots=True)
class Rule:
    """One question to a device."""

    group: str
    """Subject of the rule."""
    name: str
    """Name within the group."""
    way: str
    """Way to call the device, for a rule about several; else empty."""
    sentence: str
    """What a device does that passes."""
    rows: tuple[str, ...]
    """Rows of the contract that it shows."""
    page: str
    """Where the documentation says so."""
    ask: Callable[[Subject], object]
    """Ask. Raises BrokenRuleError, NotOfferedError, or whatever a call raises that had to succeed."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which it can be chosen, alone last."""
        name = f"{self.group}.{self.name}"
        return (self.group, name, f"{name}.{self.way}") if self.way else (self.group, name)

    @property
    def id(self) -> str:
        """The name that no other rule has."""
        return self.names[-1]


RULES: dict[str, Rule] = {}
"""All rules by their ids, in the order in which they are asked."""


def rule(group: str, page: str, *rows: str, over: Mapping[str, Any] | None = None) -> Callable[[Ask], Ask]:
    """Register a function as a rule: its name is the rule's, its docstring the sentence.

    ``over`` are ways to call the device: there is a rule for each, whose function gets the way after the device.
    """

    def register(ask: Ask) -> Ask:
        name = ask.__name__.strip("_").replace("_", "-")
        sentence = " ".join((ask.__doc__ or "").split())
        asks = {"": ask} if over is None else {key: partial(_by_way, ask, way) for key, way in over.items()}
        for way, each in asks.items():
            made = Rule(group, name, way, sentence, rows, page, each)
            if made.id in RULES:
                raise ValueError(f"two rules are called {made.id}")
            RULES[made.id] = made
        return ask

    return register


def _by_way(ask: Callable[..., object], way: object, device: Subject) -> object:
    return ask(device, way)


def require(condition: bool, got: object, expected: str) -> None:
    """Raise BrokenRuleError unless the condition holds."""
    if not condition:
        raise BrokenRuleError(f"got {got}, expected {expected}")


def refused(call: Callable[[], object], *statuses: ErrorStatus, what: str = "") -> HalError:
    """Check that a call is refused with one of some statuses and with a reason, and return the refusal."""
    place, expected = what and f"{what}: ", " or ".join(status.name for status in statuses)
    try:
        answer = call()
    except HalError as error:
        if error.status not in statuses:
            raise BrokenRuleError(f"{place}got {error}, expected {expected}") from error
        if not error.message:
            raise BrokenRuleError(f"{place}got {error.status.name} without a message, expected the reason") from error
        return error
    except (DeadObjectError, UnservedMethodError):
        raise
    except TransportError as error:
        raise BrokenRuleError(f"{place}got {error}, expected {expected} as the device's own answer") from error
    raise BrokenRuleError(f"{place}got {words_of(answer)}, expected {expected}")


def all_refused(calls: dict[str, Callable[[], object]], *statuses: ErrorStatus) -> None:
    """Check that each of several calls is refused (see ``refused``)."""
    for what, call in calls.items():
        refused(call, *statuses, what=what)


def offered(call: Callable[[], T], follows: str) -> T:
    """Make the first call of something that a device need not offer.

    Raises NotOfferedError, which says what ``follows``, if the method is not served.
    """
    try:
        return call()
    except UnservedMethodError as error:
        raise NotOfferedError(f"no {error.method}: {follows}") from error


def words_of(answer: Any) -> str:
    """Describe an answer in a line."""
    text = " ".join(str(answer).split())
    return "success" if not text or answer is None else f"success ({text:.200})"
