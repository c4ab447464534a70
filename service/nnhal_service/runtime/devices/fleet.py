"""The devices that the framework knows."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.devices.registration import RETURN_SECONDS, FleetMember, Registration

__all__ = ["Fleet", "FleetMember"]

_GETTER_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
_RETURN_PAUSE_SECONDS = 0.05
_never = threading.Event()
_log = get_logger(__name__)


class Fleet:
    """Devices by name, in order of preference. Connects when a device is first needed, and again when it came back.

    A device is registered when it is connected: it says what it is, and a process that fails to, takes too long, or
    answers against the rules is refused as long as it runs. What a name was first registered as holds for the life of
    the fleet: a process of another identity that comes up under the name is refused too, since plans were made for the
    first one. Starting what was registered, or the framework anew, ends that. Other devices are not affected.

    A process that is there and does not answer, as one that was stopped, costs a caller ``patience``, and those that
    follow less: it is connected in a thread of its own, which goes on when the process does.

    Safe to use from several threads.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        getter_seconds: float = _GETTER_SECONDS,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        """``getter_seconds`` is what a device may take for each thing that it says of itself, ``patience`` how long it
        may be silent.
        """
        self._entries = {
            name: Registration(name, endpoint, getter_seconds, patience) for name, endpoint in endpoints.items()
        }

    @property
    def names(self) -> tuple[str, ...]:
        """All devices, whether they answer or not."""
        return tuple(self._entries)

    def get(self, name: str) -> FleetMember:
        """A device.

        Raises DeadObjectError where it is not there, DEVICE_UNAVAILABLE where it is refused or does not answer, and
        LookupError for an unknown name.
        """
        if name not in self._entries:
            raise LookupError(f"no device {name!r}; there are {', '.join(self._entries) or 'none'}")
        return self._entries[name].member()

    def awaited(self, name: str, dead: FleetMember | None = None) -> FleetMember:
        """A device; one that has died lately is waited for, since somebody may start it again. Raises as ``get``.

        ``dead`` is known to be so from a call, which may be before its session is seen to have ended.
        """
        until = time.monotonic() + RETURN_SECONDS
        while True:
            try:
                member = self.get(name)
                if dead is None or member.remote is not dead.remote or time.monotonic() > until:
                    return member
            except DeadObjectError:
                if not self._entries[name].may_return:
                    raise
            _never.wait(_RETURN_PAUSE_SECONDS)

    def is_there(self, name: str) -> bool:
        """Whether a device is connected at this moment, without waiting; one that is not is connected meanwhile."""
        return self._entries[name].is_there()

    def available(self, names: Sequence[str] = ()) -> list[FleetMember]:
        """Those of the named devices that answer at this moment, in the order given; of all where none are named."""
        members = []
        for name in names or self.names:
            with suppress(NnhalError):
                member = self.get(name)
                if member.remote.responds:
                    members.append(member)
                elif not member.remote.gone:
                    _log.warning("a device does not answer; it is left out", device=name)
        return members

    def close(self) -> None:
        """End the sessions with all devices."""
        for entry in self._entries.values():
            entry.close()
