"""The message about a model that was unloaded while it was in use."""

from __future__ import annotations

from nnhal.errors import HalError
from nnhal.types import ErrorStatus


class UnloadedError(HalError):
    """DEVICE_UNAVAILABLE: the model has been unloaded, or is being unloaded."""

    def __init__(self) -> None:
        super().__init__(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
