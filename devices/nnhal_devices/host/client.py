"""What one session owns on a device."""

from __future__ import annotations

import os
import threading

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_devices.backend import BackendContext
from nnhal_devices.host.bound_request import BoundRequest
from nnhal_devices.host.burst import Burst
from nnhal_devices.host.callback import FencedExecution
from nnhal_devices.host.device_memory import DeviceBuffer
from nnhal_devices.host.fenced import LaunchCount
from nnhal_devices.host.models import SessionModels
from nnhal_devices.host.networks import Networks
from nnhal_devices.host.prepared_model import PreparedModel
from nnhal_devices.host.run_channel import RunChannel
from nnhal_hosting.link_server import Session
from nnhal_hosting.sessions import Ownership, Sessions


class Client(Ownership):
    """The HAL's objects of one session, by handle. A device buffer's handle is its token as well."""

    def __init__(self, session: Session, context: BackendContext | None = None) -> None:
        """``context`` is told of the session's networks."""
        self.launched = LaunchCount()
        self._end = threading.Lock()
        self._over = False
        self._ended: Descriptor | None = None
        self._lending = threading.Lock()
        self._run_channels: dict[int, RunChannel] = {}
        session.on_close(self._tell_end)
        self.models = SessionModels(session.descriptors.get)
        session.on_close(self.models.close)
        self.networks = Networks(context)
        session.on_close(self.networks.close)
        super().__init__(session)

    @property
    def ended(self) -> Descriptor:
        """Becomes readable when the session is over. Raises RESOURCE_EXHAUSTED_TRANSIENT.

        Only clients that launch something have one: a session must not need more descriptors than its link.
        """
        with self._end:
            if self._ended is None:
                try:
                    self._ended = Descriptor(os.eventfd(1 if self._over else 0, os.EFD_CLOEXEC))
                except OSError as error:
                    raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, f"no descriptor: {error}") from error
            return self._ended

    def _tell_end(self) -> None:
        with self._end:
            self._over = True
            if self._ended is not None:
                os.eventfd_write(self._ended.fileno(), 1)

    def prepared_model(self, handle: int) -> PreparedModel:
        """A prepared model. Raises INVALID_ARGUMENT."""
        return self.get(handle, PreparedModel, "prepared model")

    def execution(self, handle: int) -> BoundRequest:
        """A reusable execution. Raises INVALID_ARGUMENT."""
        return self.get(handle, BoundRequest, "execution")

    def burst(self, handle: int) -> Burst:
        """A burst. Raises INVALID_ARGUMENT."""
        return self.get(handle, Burst, "burst")

    def buffer(self, token: int) -> DeviceBuffer:
        """A device buffer. Raises INVALID_ARGUMENT."""
        return self.get(token, DeviceBuffer, "device buffer")

    def fenced_execution(self, handle: int) -> FencedExecution:
        """The callback of a fenced execution. Raises INVALID_ARGUMENT."""
        return self.get(handle, FencedExecution, "callback")

    def run_channel(self, handle: int) -> RunChannel:
        """What runs an execution for others, the same each time. Raises INVALID_ARGUMENT."""
        with self._lending:
            execution = self.execution(handle)
            return self._run_channels.setdefault(handle, RunChannel(execution, handle))

    def release(self, handle: int) -> object | None:
        """See Ownership. Executions that are bound to a device buffer can no longer begin to use it.

        Nobody runs a released execution from afar any more.
        """
        with self._lending:
            item = super().release(handle)
            channel = self._run_channels.pop(handle, None)
        if channel is not None:
            channel.close()
        if isinstance(item, DeviceBuffer):
            item.release()
        return item


Clients = Sessions[Client]
"""Every client of a device process."""
