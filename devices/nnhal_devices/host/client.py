"""What one session owns on a device."""

from __future__ import annotations

from nnhal.sessions import Ownership, Sessions
from nnhal_devices.host.burst import Burst
from nnhal_devices.host.prepared_model import BoundRequest, PreparedModel


class Client(Ownership):
    """The HAL's objects of one session, by handle."""

    def prepared_model(self, handle: int) -> PreparedModel:
        """A prepared model. Raises INVALID_ARGUMENT."""
        return self.get(handle, PreparedModel, "prepared model")

    def execution(self, handle: int) -> BoundRequest:
        """A reusable execution. Raises INVALID_ARGUMENT."""
        return self.get(handle, BoundRequest, "execution")

    def burst(self, handle: int) -> Burst:
        """A burst. Raises INVALID_ARGUMENT."""
        return self.get(handle, Burst, "burst")


Clients = Sessions[Client]
"""Every client of a device process."""
