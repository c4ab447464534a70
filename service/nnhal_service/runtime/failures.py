"""Errors of runs."""

from __future__ import annotations

import traceback
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


def let_go(error: BaseException) -> None:
    """Have the frames that an error has come through, and those of its causes, hold nothing any more.

    One that is raised again in a function that was given it is held by that function's frame, which it holds itself:
    with them the memory of the run would stay until Python looks for circles.
    """
    known: set[int] = set()
    follow: BaseException | None = error
    while follow is not None and id(follow) not in known:
        known.add(id(follow))
        traceback.clear_frames(follow.__traceback__)
        follow = follow.__cause__ or follow.__context__
