"""What a device is being asked in this thread."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

from nnhal_devices.faults.model_facts import ModelFacts


class ServedCall(NamedTuple):
    """One call, from its arrival on until it has been answered and its work is done."""

    method: str
    """As conditions of faults name it."""

    session: str = ""
    """The public id of its session; empty for a call without one."""

    client: str = ""
    """What the client calls itself."""

    is_wanted: Callable[[], bool] = lambda: True
    """Whether the client is still there."""


NO_CALL = ServedCall("")
RAN: ContextVar[ModelFacts | None] = ContextVar("ran", default=None)
"""The model that was executed last in this thread."""
CURRENT: ContextVar[ServedCall] = ContextVar("call", default=NO_CALL)
"""That of this thread, or of the thread that has started it."""
