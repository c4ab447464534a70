"""What a device is being asked in this thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from nnhal_devices.faults.model_facts import ModelFacts

if TYPE_CHECKING:
    from nnhal_devices.faults.fault_set import ActiveFault


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

    def begin(self) -> None:
        """Make it the call of this thread."""
        CURRENT.set(self)
        LATER.set(None)


NO_CALL = ServedCall("")
RAN: ContextVar[ModelFacts | None] = ContextVar("ran", default=None)
"""The model that was executed last in this thread."""
LATER: ContextVar[Sequence[ActiveFault] | None] = ContextVar("later", default=None)
"""The faults of the answer, or of the fence, that the execution in this thread has met; None if there was none."""
CURRENT: ContextVar[ServedCall] = ContextVar("call", default=NO_CALL)
"""That of this thread, or of the thread that has started it."""
