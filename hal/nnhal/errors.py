"""The errors of nnhal.

NnhalError
├── HalError            a device's own answer: an ErrorStatus with a message
└── TransportError      the call did not reach the device, or the answer did not come back
    ├── DeadObjectError the process on the other side is gone
    └── MissingMethodError  the process does not serve the method
"""

from __future__ import annotations

from typing import NoReturn, TypeVar

from nnhal.types.enums import ErrorStatus

E = TypeVar("E", bound=BaseException)


class NnhalError(Exception):
    """The base class of nnhal's errors."""


class HalError(NnhalError):
    """A device's answer: an ErrorStatus other than NONE. The message says what was got, what was expected and where."""

    def __init__(self, status: ErrorStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return f"{self.status.name}: {self.message}"


class TransportError(NnhalError):
    """A failure between the processes, and not a device's answer."""


class DeadObjectError(TransportError):
    """The process on the other side is gone."""


class MissingMethodError(TransportError):
    """The process on the other side does not serve the method, as devices may that have no optional services."""


def invalid_argument(message: str) -> NoReturn:
    raise HalError(ErrorStatus.INVALID_ARGUMENT, message)


def general_failure(message: str) -> NoReturn:
    raise HalError(ErrorStatus.GENERAL_FAILURE, message)


def without_frames(error: E) -> E:
    """Return the same error without its traceback, and without those of the errors that led to it.

    A traceback holds the frames that the error came through, and so their memory. Call this before an error is kept.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            waiting += [one.__cause__, one.__context__]
    return error
