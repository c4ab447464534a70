"""The fleet: the devices that the framework knows, by name."""

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
    """Devices by name, in order of preference. A device is connected when it is first needed, and when it comes back.

    A device is registered when it is connected: the process says what it is, and one that fails to, takes too long, or
    breaks the rules is refused as long as it runs. The first identity under a name holds for the life of the fleet: a
    process with another identity is refused, since plans were made for the first one, until the registered device or
    the framework is started again. Other devices are not affected.

    A process that does not answer, for example because it was stopped, costs a caller ``patience``, and later callers
    less: it is connected in a thread of its own, which continues when the process does.

    Safe to use from several threads.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        getter_seconds: float = _GETTER_SECONDS,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        """``getter_seconds`` is how long a device may take to answer each question about itself, ``patience`` how long
        it may be silent.
        """
        self._entries = {
            name: Registration(name, endpoint, getter_seconds, patience) for name, endpoint in endpoints.items()
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all devices, whether they answer or not."""
        return tuple(self._entries)

    def get(self, name: str) -> FleetMember:
        """The device of that name.

        Raises DeadObjectError if it is not there, DEVICE_UNAVAILABLE if it is refused or does not answer, and
        LookupError for an unknown name.
        """
        if name not in self._entries:
            raise LookupError(f"no device {name!r}; there are {', '.join(self._entries) or 'none'}")
        return self._entries[name].member()

    def awaited(self, name: str, dead: FleetMember | None = None) -> FleetMember:
        """The device of that name; one that has died recently is awaited, since it may be restarted. Raises as ``get``.

        ``dead`` has failed in a call as a dead process does, perhaps before the end of its session was noticed.
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
        """Whether a device is connected at this moment. Does not wait, but starts to connect one that is not."""
        return self._entries[name].is_there()

    def available(self, names: Sequence[str] = ()) -> list[FleetMember]:
        """The named devices, or all if none are named, that answer at this moment, in the order given."""
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
