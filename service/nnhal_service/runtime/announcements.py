"""What devices are told of a network: that it is loaded on them, and unloaded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator

from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal.types import NetworkEvent
from nnhal_service.runtime.fleet import FleetMember


class Announcements:
    """Each session hears of each event once. Safe to use from several threads.

    A device that came back has a session of its own; one that does not want to know is no problem.
    """

    def __init__(self, network: int) -> None:
        self._network = network
        self._lock = threading.Lock()
        self._told: set[RemoteDevice] = set()
        self._is_over = False

    @contextlib.contextmanager
    def loading(self, members: Iterable[FleetMember]) -> Iterator[None]:
        """Around the preparation of parts on these devices."""
        with self._lock:
            self._told = {remote for remote in self._told if not remote.gone}
            new = list(dict.fromkeys(member.remote for member in members if member.remote not in self._told))
            is_late = self._is_over
            if not is_late:
                self._told.update(new)
        self._tell(new, NetworkEvent.BEFORE_LOAD)
        try:
            yield
        finally:
            self._tell(new, NetworkEvent.AFTER_LOAD)
            if is_late:  # nobody else tells them, and what has been prepared is of no use
                self._tell(new, NetworkEvent.BEFORE_UNLOAD)
                self._tell(new, NetworkEvent.AFTER_UNLOAD)

    @contextlib.contextmanager
    def unloading(self) -> Iterator[None]:
        """Around the release of all parts."""
        with self._lock:
            told, self._told, self._is_over = self._told, set(), True
        self._tell(told, NetworkEvent.BEFORE_UNLOAD)
        yield
        self._tell(told, NetworkEvent.AFTER_UNLOAD)

    def _tell(self, remotes: Iterable[RemoteDevice], event: NetworkEvent) -> None:
        for remote in remotes:
            if not remote.gone:
                with contextlib.suppress(NnhalError):
                    remote.notify_network(self._network, event)
