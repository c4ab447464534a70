"""The errors of nnhal.

NnhalError
├── HalError            a device's own answer: an ErrorStatus with a message
└── TransportError      the call did not reach the device, or the answer did not come back
    └── DeadObjectError the process on the other side is gone
"""

from __future__ import annotations

from typing import NoReturn

from nnhal.types.enums import ErrorStatus


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


def invalid_argument(message: str) -> NoReturn:
    """Raise INVALID_ARGUMENT."""
    raise HalError(ErrorStatus.INVALID_ARGUMENT, message)


def general_failure(message: str) -> NoReturn:
    """Raise GENERAL_FAILURE."""
    raise HalError(ErrorStatus.GENERAL_FAILURE, message)
