"""Type of a check: one sentence about a device process, the rows of the contract that it asks, and how it asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from nnhal.errors import DeadObjectError, HalError, MissingMethodError, NnhalError, TransportError
from nnhal.types import ErrorStatus

if TYPE_CHECKING:
    from nnhal_tools.check.checked_device import CheckedDevice

T = TypeVar("T")
Ask = Callable[["CheckedDevice"], object]
INVALID, FAILURE = ErrorStatus.INVALID_ARGUMENT, ErrorStatus.GENERAL_FAILURE
FULL = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)


class CheckFailedError(NnhalError):
    """The device did something else than the contract says. The message says what was got and what was expected."""


class NotOfferedError(NnhalError):
    """The device does not offer what a check is about, and need not. The message says what follows from that."""


class UnservedMethodError(MissingMethodError):
    """The device does not serve a method, which is named."""

    def __init__(self, method: str) -> None:
        super().__init__(f"{method} is not served (gRPC's UNIMPLEMENTED), expected an answer")
        self.method = method


@dataclass(frozen=True, slots=True)
class Check:
    """One question to a device."""

    group: str
    """What it is about."""
    name: str
    """Its name within the group."""
    sentence: str
    """What a device does that passes."""
    rows: tuple[str, ...]
    """The rows of the contract that it asks."""
    page: str
    """Where the documentation says so."""
    ask: Ask
    """Ask. Raises CheckFailedError, NotOfferedError, or whatever a call raises that had to succeed."""

    @property
    def id(self) -> str:
        """Its name, by which it can be chosen."""
        return f"{self.group}.{self.name}"


CHECKS: dict[str, Check] = {}
"""All checks by their ids, in the order in which they are made."""


def check(group: str, page: str, *rows: str) -> Callable[[Ask], Ask]:
    """Register a function as a check: its name is the check's, its docstring the sentence."""

    def register(ask: Ask) -> Ask:
        name = ask.__name__.strip("_").replace("_", "-")
        made = Check(group, name, " ".join((ask.__doc__ or "").split()), rows, page, ask)
        if made.id in CHECKS:
            raise ValueError(f"two checks are called {made.id}")
        CHECKS[made.id] = made
        return ask

    return register


def require(condition: bool, got: object, expected: str) -> None:
    """Raise CheckFailedError unless the condition holds."""
    if not condition:
        raise CheckFailedError(f"got {got}, expected {expected}")


def refused(call: Callable[[], object], *statuses: ErrorStatus, what: str = "") -> HalError:
    """Check that a call is refused with one of some statuses and with a reason, and return the refusal."""
    place, expected = what and f"{what}: ", " or ".join(status.name for status in statuses)
    try:
        answer = call()
    except HalError as error:
        if error.status not in statuses:
            raise CheckFailedError(f"{place}got {error}, expected {expected}") from error
        if not error.message:
            raise CheckFailedError(f"{place}got {error.status.name} without a message, expected the reason") from error
        return error
    except (DeadObjectError, UnservedMethodError):
        raise
    except TransportError as error:
        raise CheckFailedError(f"{place}got {error}, expected {expected} as the device's own answer") from error
    raise CheckFailedError(f"{place}got {words_of(answer)}, expected {expected}")


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
