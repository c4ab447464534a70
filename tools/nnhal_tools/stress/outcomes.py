"""Statuses that a call may return, and violations of the contract."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_hosting.rpc import DEFECT

T = TypeVar("T")
Statuses = frozenset[ErrorStatus]

OK: Statuses = frozenset({ErrorStatus.NONE})
INVALID: Statuses = frozenset({ErrorStatus.INVALID_ARGUMENT})
FAILURE: Statuses = frozenset({ErrorStatus.GENERAL_FAILURE})
MISSED: Statuses = frozenset({ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT})
REFUSED = INVALID | FAILURE
NOTHING: Statuses = frozenset()
"""No status at all, for an output that cannot be large enough."""
ANY = OK | REFUSED
"""For objects that other threads use too: whether they are busy, filled or released is unknown."""
_EXHAUSTED: Statuses = frozenset({ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT})


class Violation(Exception):  # noqa: N818 - a finding about the device, not an error of this program
    """A violation of the contract. The message says what was got and what was expected."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """An allowed status, and the returned value if it is NONE."""

    status: ErrorStatus
    _value: T | None = None

    @property
    def value(self) -> T:
        """The returned value. Only after NONE."""
        assert self
        return cast(T, self._value)

    def __bool__(self) -> bool:
        return self.status == ErrorStatus.NONE


def ask(call: Callable[[], T], allowed: Collection[ErrorStatus] = OK, takes: bool = True) -> Answer[T]:
    """Make a call. ``takes`` says whether it may return RESOURCE_EXHAUSTED.

    Raises Violation if the status is not allowed, or if the message says that the device has a defect.
    """
    try:
        value = call()
    except HalError as error:
        if error.message == DEFECT:
            raise Violation(f"the device has a defect: {error}") from error
        if error.status in allowed or (takes and error.status in _EXHAUSTED):
            return Answer(error.status)
        raise Violation(f"{error}; allowed: {describe(allowed)}") from error
    if ErrorStatus.NONE not in allowed:
        raise Violation(f"NONE; allowed: {describe(allowed)}")
    return Answer(ErrorStatus.NONE, value)


def require(condition: bool, what: str) -> None:
    """Raise Violation if the condition is false."""
    if not condition:
        raise Violation(what)


def describe(statuses: Collection[ErrorStatus]) -> str:
    """Names of statuses."""
    return ", ".join(status.name for status in sorted(statuses))
