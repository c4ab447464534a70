"""Errors of runs that the engine drives."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.types import ErrorStatus


class EmptyValueError(HalError):
    """A value between steps has no elements, which no request can say."""

    def __init__(self, device: str, dimensions: Sequence[int]) -> None:
        message = f"the step on {device} has written {list(dimensions)} for another step, expected elements"
        super().__init__(ErrorStatus.GENERAL_FAILURE, message)


def of_both(first: NnhalError, further: NnhalError) -> NnhalError:
    """The error of a run that failed, and failed again where another device stood in."""
    message = f"{first}; and without the device: {further}"
    if isinstance(further, HalError):
        return HalError(further.status, message)
    if isinstance(first, HalError):
        return HalError(first.status, message)
    kind = DeadObjectError if isinstance(further, DeadObjectError) else TransportError
    return kind(message)
