"""What one session of a device owns."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nnhal.link import Channel
from nnhal.memory import CopyBudget
from nnhal_devices.backend import BackendContext
from nnhal_devices.host.burst import Burst
from nnhal_devices.host.callback import FencedExecutionCallback
from nnhal_devices.host.device_memory import DeviceBuffer
from nnhal_devices.host.execution import Execution
from nnhal_devices.host.interrupt import Interrupt
from nnhal_devices.host.launches import Launches
from nnhal_devices.host.models import SessionModels
from nnhal_devices.host.networks import Networks
from nnhal_devices.host.prepared_model import PreparedModel
from nnhal_devices.host.run_channel import RunChannel
from nnhal_devices.host.stage import Stage
from nnhal_hosting.link_server import Session
from nnhal_hosting.polling import Work
from nnhal_hosting.sessions import Ownership, Sessions

Exchange = Callable[[], Work | None]
"""Receives a message of a channel, and returns the work that it leaves."""
OnChannel = Callable[[str, "ClientSession", Channel, Exchange], Exchange]
"""Given the name of a channel, its client, the channel and its exchanges, returns those that take their place."""


class ClientSession(Ownership):
    """The HAL's objects of one session, by handle. A device buffer's handle is its token as well."""

    def __init__(
        self,
        session: Session,
        context: BackendContext | None = None,
        copies: CopyBudget | None = None,
        on_channel: OnChannel | None = None,
    ) -> None:
        """``context`` is notified of the session's networks; ``copies`` limits copies of constants.

        ``on_channel`` is given each channel with its name and exchanges, and returns those that take their place.
        """
        self._on_channel = on_channel
        self.launched = Launches()
        self.interrupt = Interrupt()
        self._runners = threading.Lock()
        self._run_channels: dict[int, RunChannel] = {}
        self._stages: dict[int, list[int]] = {}
        session.on_close(self.interrupt.end)
        self.models = SessionModels(session.descriptors.get, copies)
        session.on_close(self.models.close)
        self.networks = Networks(context)
        session.on_close(self.networks.close)
        session.on_close(self._drop_runners)  # callbacks run last first: after the session's objects are gone
        super().__init__(session)

    def prepared_model(self, handle: int) -> PreparedModel:
        """Return a prepared model. Raises INVALID_ARGUMENT."""
        return self.get(handle, PreparedModel, "prepared model")

    def execution(self, handle: int) -> Execution:
        """Return a reusable execution. Raises INVALID_ARGUMENT."""
        return self.get(handle, Execution, "execution")

    def burst(self, handle: int) -> Burst:
        """Return a burst. Raises INVALID_ARGUMENT."""
        return self.get(handle, Burst, "burst")

    def buffer(self, token: int) -> DeviceBuffer:
        """Return a device buffer. Raises INVALID_ARGUMENT."""
        return self.get(token, DeviceBuffer, "device buffer")

    def callback(self, handle: int) -> FencedExecutionCallback:
        """Return the callback of a fenced execution. Raises INVALID_ARGUMENT."""
        return self.get(handle, FencedExecutionCallback, "callback")

    def run_channel(self, handle: int) -> RunChannel:
        """Return the run channel of an execution, the same one each time. Raises INVALID_ARGUMENT."""
        with self._runners:
            execution = self.execution(handle)
            return self._run_channels.setdefault(handle, RunChannel(execution, handle, self.descriptors))

    def serve_exchanges(
        self,
        channel: Channel,
        name: str,
        exchange: Exchange,
        ended: Callable[[], object] = lambda: None,
        in_turn: bool = False,
    ) -> None:
        """Serve a channel as every session does. Raises as there."""
        if self._on_channel is not None:
            exchange = self._on_channel(name, self, channel, exchange)
        super().serve_exchanges(channel, name, exchange, ended, in_turn)

    @property
    def run_channels(self) -> int:
        """How many executions have run channels."""
        return len(self._run_channels)

    def stage(self, handle: int) -> Stage:
        """Return a stage of a wired chain. Raises INVALID_ARGUMENT."""
        return self.get(handle, Stage, "stage")

    def add_stage(self, stage: Stage) -> int:
        """Own a stage, which is released with its execution, and return its handle. Raises as ``add``.

        Raises INVALID_ARGUMENT if the execution has been released.
        """
        with self._runners:
            self.execution(stage.handle)
            number = self.add(stage)
            self._stages.setdefault(stage.handle, []).append(number)
            return number

    def release(self, handle: int) -> object | None:
        """Release an object and return it; whatever else needs it keeps it alive. Unknown handles do no harm.

        No execution may begin to use a released device buffer. A released execution's run channel and stages end.
        """
        with self._runners:
            item = super().release(handle)
            channel = self._run_channels.pop(handle, None)
            stages = [super(ClientSession, self).release(number) for number in self._stages.pop(handle, ())]
            if isinstance(item, Stage) and item.handle in self._stages:
                self._stages[item.handle].remove(handle)
        if channel is not None:
            channel.close()
        for stage in (item, *stages):
            if isinstance(stage, Stage):
                stage.end()
        if isinstance(item, DeviceBuffer):
            item.release()
        return item

    def _drop_runners(self) -> None:
        """Break the reference cycle: they refer to executions, those to prepared models, and those to this session."""
        with self._runners:
            self._run_channels.clear()
            self._stages.clear()


ClientSessions = Sessions[ClientSession]
"""The sessions of all clients of a device process."""
