"""The networks of one session: a backend's context is notified of each event, also if the session ends early."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from nnhal.errors import invalid_argument
from nnhal.types import NetworkEvent
from nnhal_devices.backend import BackendContext
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)
_numbers = itertools.count(1)


class Networks:
    """Notifies a context, with network numbers that are unique in its process. Safe to use from several threads."""

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
        self._tell(number, NetworkEvent(event))

    def close(self) -> None:
        """Notify the context of the events that each network still lacks: the session is over."""
        with self._lock:
            known, self._known = self._known, {}
        for number, last in known.values():
            for event in range(last + 1, NetworkEvent.AFTER_UNLOAD + 1):
                self._tell(number, NetworkEvent(event))

    def _tell(self, number: int, event: NetworkEvent) -> None:
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
