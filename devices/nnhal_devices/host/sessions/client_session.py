"""Objects that one session of a device owns."""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar, cast

from nnhal.errors import invalid_argument
from nnhal.link import Channel
from nnhal.memory import CopyBudget
from nnhal.types import NetworkEvent
from nnhal_devices.backend import BackendContext
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.runs.burst import Burst
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.hooks import NO_HOOKS, Exchange, Hooks
from nnhal_devices.host.runs.launches import FencedExecutionCallback, Interrupt, Launches
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.models import SessionModels
from nnhal_hosting.link_server import Session
from nnhal_hosting.logs import get_logger
from nnhal_hosting.sessions import Ownership, Sessions

_log = get_logger(__name__)
_numbers = itertools.count(1)


class Networks:
    """The networks of one session: a context is notified of each event, also if the session ends early.

    Their numbers are unique in the process. Safe to use from several threads.
    """

    def __init__(self, context: BackendContext | None) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, NetworkEvent]] = {}

    def notify(self, network: int, event: int) -> None:
        """Pass an event on. Raises INVALID_ARGUMENT if it is not the network's next event."""
        with self._lock:
            number, last = self._known.get(network, (0, 0))
            if event != last + 1 or event > NetworkEvent.AFTER_UNLOAD:
                invalid_argument(f"event {event} of network {network}, expected {last + 1} in the range of 1 to 4")
            if event == NetworkEvent.BEFORE_LOAD:
                number = next(_numbers)
            if event == NetworkEvent.AFTER_UNLOAD:
                del self._known[network]
            else:
                self._known[network] = (number, NetworkEvent(event))
        self._notify(number, NetworkEvent(event))

    def close(self) -> None:
        """Notify the context of the events that each network still lacks: the session is over."""
        with self._lock:
            known, self._known = self._known, {}
        for number, last in known.values():
            for event in range(last + 1, NetworkEvent.AFTER_UNLOAD + 1):
                self._notify(number, NetworkEvent(event))

    def _notify(self, number: int, event: NetworkEvent) -> None:
        if self._context is None:
            return
        calls: dict[NetworkEvent, Callable[[int], None]] = {
            NetworkEvent.BEFORE_LOAD: self._context.before_load_network,
            NetworkEvent.AFTER_LOAD: self._context.after_load_network,
            NetworkEvent.BEFORE_UNLOAD: self._context.before_unload_network,
            NetworkEvent.AFTER_UNLOAD: self._context.after_unload_network,
        }
        try:
            calls[event](number)
        except Exception:
            _log.exception("a backend's context failed", network=number, network_event=event.name)


class Runner(ABC):
    """Runs one execution of a session whenever it is asked to over a socket. It ends when the execution is released."""

    def __init__(self, execution: Execution, handle: int) -> None:
        """``handle`` is the execution's."""
        self.execution = execution
        self.handle = handle

    @abstractmethod
    def end(self) -> None:
        """Shut its sockets down; harmless when repeated."""


R = TypeVar("R", bound=Runner)


class ClientSession(Ownership):
    """The HAL's objects of one session, by handle. A device buffer's handle is its token as well."""

    def __init__(
        self,
        session: Session,
        context: BackendContext | None = None,
        copies: CopyBudget | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        """``context`` is notified of the session's networks; ``copies`` limits copies of constants."""
        self.hooks = hooks
        self.launched = Launches(session.shares)
        self.interrupt = Interrupt()
        self._releasing = threading.Lock()
        self._run_channels: dict[int, Runner] = {}
        self._runners: dict[int, list[int]] = {}
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

    def run_channel(self, handle: int, make: Callable[[Execution], R]) -> R:
        """Return the run channel of an execution, made at the first call. Raises INVALID_ARGUMENT."""
        with self._releasing:
            execution = self.execution(handle)
            if handle not in self._run_channels:
                self._run_channels[handle] = make(execution)
            return cast(R, self._run_channels[handle])

    def serve_exchanges(
        self,
        channel: Channel,
        name: str,
        exchange: Exchange,
        ended: Callable[[], object] = lambda: None,
        in_turn: bool = False,
    ) -> None:
        """Serve a channel as every session does. Raises as there."""
        super().serve_exchanges(channel, name, self.hooks.exchange(name, self, exchange), ended, in_turn)

    @property
    def run_channels(self) -> int:
        """Return how many executions have run channels."""
        return len(self._run_channels)

    def add_runner(self, runner: Runner) -> int:
        """Own what runs an execution, is released with it, and has a handle of its own, which is returned.

        Raises as ``add``, and INVALID_ARGUMENT if the execution has been released.
        """
        with self._releasing:
            self.execution(runner.handle)
            number = self.add(runner)
            self._runners.setdefault(runner.handle, []).append(number)
            return number

    def release(self, handle: int) -> object | None:
        """Release an object and return it; whatever else needs it keeps it alive. Unknown handles do no harm.

        No execution may begin to use a released device buffer. What runs a released execution ends.
        """
        with self._releasing:
            item = super().release(handle)
            channel = self._run_channels.pop(handle, None)
            runners = [super(ClientSession, self).release(number) for number in self._runners.pop(handle, ())]
            if isinstance(item, Runner) and item.handle in self._runners:
                self._runners[item.handle].remove(handle)
        for runner in (channel, item, *runners):
            if isinstance(runner, Runner):
                runner.end()
        if isinstance(item, DeviceBuffer):
            item.release()
        return item

    def _drop_runners(self) -> None:
        """Break the reference cycle: they refer to executions, those to prepared models, and those to this session."""
        with self._releasing:
            self._run_channels.clear()
            self._runners.clear()


ClientSessions = Sessions[ClientSession]
"""The sessions of all clients of a device process."""
