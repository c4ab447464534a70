"""Waiting for a preparation: the callback of the HAL is the stream of the call."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Protocol

from nnhal.errors import HalError, general_failure
from nnhal.remote.answers import require_handle
from nnhal.types import ErrorStatus
from nnhal.v1 import device_pb2 as wire


class Event(Protocol):
    """One event, whichever call it is of."""

    @property
    def preparation(self) -> wire.Preparation:
        """The event."""
        ...


def prepared_handle(events: Generator[Event, None, None], place: str) -> int:
    """The handle of the prepared model, once the device has notified.

    What the call itself ends with counts more than what was notified before it was launched; of several notifications
    the first one counts, and nothing is awaited after it. Raises GENERAL_FAILURE where the call ends without one, or
    where it tells of success without a prepared model.
    """
    notified = _notified(events)
    if notified is None:
        general_failure(f"{place} ended a preparation without a notification, expected exactly one")
    if notified.status:
        raise HalError(ErrorStatus(notified.status), notified.message)
    return require_handle(notified.prepared_model, "prepared model", place)


def _notified(events: Generator[Event, None, None]) -> wire.Notified | None:
    launched, notified = False, None
    with closing(events):
        for event in events:
            kind = event.preparation.WhichOneof("event")
            launched = launched or kind == "launched"
            if kind == "notified" and notified is None:
                notified = event.preparation.notified
            if launched and notified is not None:
                break
    return notified
