"""Waiting for a preparation. The stream of the call stands for the HAL's callback."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Protocol

from nnhal.errors import HalError, general_failure
from nnhal.remote.answers import require_handle
from nnhal.types import ErrorStatus
from nnhal.v1 import device_pb2 as wire

_MOST_EVENTS = 16
"""Of one preparation, which has two: it is launched, and its end is notified."""


class PreparationEvent(Protocol):
    """One event in the stream of any call that prepares a model."""

    @property
    def preparation(self) -> wire.Preparation: ...


def prepared_handle(events: Generator[PreparationEvent, None, None], place: str) -> int:
    """Wait for the device's notification and return the handle of the prepared model.

    The error with which the call ends takes precedence over a notification before the launch. Otherwise the first
    notification counts, and nothing after it is waited for. Raises GENERAL_FAILURE if the call ends without a
    notification, or if a notification of success has no prepared model.
    """
    notified = _notified(events)
    if notified is None:
        general_failure(f"{place} ended a preparation without a notification, expected exactly one")
    if notified.status:
        raise HalError(ErrorStatus(notified.status), notified.message)
    return require_handle(notified.prepared_model, "prepared model", place)


def _notified(events: Generator[PreparationEvent, None, None]) -> wire.Notified | None:
    launched, notified = False, None
    with closing(events):
        for number, event in enumerate(events):
            if number == _MOST_EVENTS:
                break
            kind = event.preparation.WhichOneof("event")
            launched = launched or kind == "launched"
            if kind == "notified" and notified is None:
                notified = event.preparation.notified
            if launched and notified is not None:
                break
    return notified
