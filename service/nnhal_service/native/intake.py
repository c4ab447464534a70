"""Whether the framework takes new work of native clients."""

from __future__ import annotations

from nnhal.errors import HalError
from nnhal.types import ErrorStatus

DRAINS = "the framework drains: it takes no new work"


class Intake:
    """Open until the framework drains, and again afterwards. Safe to use from several threads."""

    def __init__(self) -> None:
        self.is_closed = False
        """Whether new work is refused."""

    def require_open(self) -> None:
        """Raise DEVICE_UNAVAILABLE while the framework drains."""
        if self.is_closed:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, DRAINS)
