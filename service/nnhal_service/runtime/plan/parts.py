"""The parts of a plan: its steps, prepared on their own devices or on the fallback device."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, NnhalError
from nnhal.remote import RemoteDevice, RemotePreparedModel
from nnhal.types import ErrorStatus, NetworkEvent
from nnhal_service.runtime.devices.fleet import FleetMember
from nnhal_service.unloaded import UnloadedError


@dataclass(frozen=True, slots=True)
class Part:
    """A step that is prepared on a device."""

    member: FleetMember
    prepared: RemotePreparedModel


PrepareStep = Callable[[str, int | None], Part]
"""Prepares a step, by number, on a device; without a number the whole model.

Raises HalError, or TransportError if the device is gone.
"""


class Parts:
    """One part for each step. Safe to use from several threads."""

    def __init__(self, parts: Sequence[Part], prepare: PrepareStep, fallback: str) -> None:
        """``fallback`` is the device that replaces one that fails; empty if none may."""
        self._parts: dict[int | None, Part] = dict(enumerate(parts))
        self._fallback_parts: dict[int | None, Part] = {}
        self._prepare = prepare
        self._fallback_device = fallback
        self._lock = threading.Lock()
        self._preparing: dict[tuple[bool, int | None], threading.Lock] = {}
        self._released = False
        self.has_run = False
        """True if a run on the steps' own devices has succeeded."""
        self.restarts = 0
        """How often a part was prepared again, since the process of its device was another one."""

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        return iter(list(self._parts.values()))

    def __getitem__(self, number: int) -> Part:
        return self._parts[number]

    @property
    def fallback_device(self) -> str:
        """The device that replaces one that fails; empty if none may."""
        return self._fallback_device

    @property
    def members(self) -> Collection[FleetMember]:
        """The devices that have parts, the fallback device among them if it has."""
        with self._lock:
            parts = [*self._parts.values(), *self._fallback_parts.values()]
        return {part.member.remote: part.member for part in parts}.values()

    @property
    def may_fall_back(self) -> bool:
        """Return whether another device may replace one that fails."""
        return bool(self._fallback_device)

    def may_replace(self, device: str) -> bool:
        """Return whether another device may replace this one."""
        return self._fallback_device not in ("", device)

    def living(self, number: int) -> Part:
        """The part of a step on its own device, prepared again if the device came back. Raises as preparing does."""
        part = self._parts[number]
        if not part.member.remote.gone:
            return part
        with self._one_at_a_time(False, number):
            part = self._parts[number]
            if part.member.remote.gone:
                part = self._keep(self._parts, number, self._prepare(part.member.name, number))
                self.restarts += 1
            return part

    def on_fallback(self, number: int | None) -> Part:
        """The part of a step on the fallback device; of the whole model without a number.

        Raises as preparing does, and DEVICE_UNAVAILABLE if there is no fallback device.
        """
        if not self._fallback_device:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "no other device may run the step")
        with self._one_at_a_time(True, number):
            part = self._fallback_parts.get(number)
            if part is None or part.member.remote.gone:
                part = self._keep(self._fallback_parts, number, self._prepare(self._fallback_device, number))
            return part

    def release(self) -> None:
        """Release all parts on their devices, and one that is being prepared when it is ready."""
        with self._lock:
            self._released = True
            parts = [*self._parts.values(), *self._fallback_parts.values()]
            self._fallback_parts.clear()
        for part in parts:
            part.prepared.release()

    def _one_at_a_time(self, is_fallback: bool, number: int | None) -> threading.Lock:
        """A lock for the preparation of one part; other parts do not wait for it."""
        with self._lock:
            return self._preparing.setdefault((is_fallback, number), threading.Lock())

    def _keep(self, place: dict[int | None, Part], number: int | None, part: Part) -> Part:
        """Keep a part. Raises DEVICE_UNAVAILABLE, and releases it, if all parts have been released."""
        with self._lock:
            if not self._released:
                place[number] = part
                return part
        part.prepared.release()
        raise UnloadedError


class Announcements:
    """Tells devices that a network is loaded and unloaded: each session once for each event.

    A device that came back has a new session; one that refuses the notice is ignored. Safe to use from several threads.
    """

    def __init__(self, network: int, ignoring: Container[str] = ()) -> None:
        """``ignoring`` has the devices that make nothing of it, and are not told."""
        self.network = network
        self._ignoring = ignoring
        self._lock = threading.Lock()
        self._notified: set[RemoteDevice] = set()
        self._is_over = False

    @contextlib.contextmanager
    def loading(self, members: Iterable[FleetMember]) -> Iterator[None]:
        """Announce the preparation of parts on these devices, before and after it."""
        with self._lock:
            self._notified = {remote for remote in self._notified if not remote.gone}
            heeding = (member.remote for member in members if member.name not in self._ignoring)
            new = list(dict.fromkeys(remote for remote in heeding if remote not in self._notified))
            is_late = self._is_over
            if not is_late:
                self._notified.update(new)
        self._notify(new, NetworkEvent.BEFORE_LOAD)
        try:
            yield
        finally:
            self._notify(new, NetworkEvent.AFTER_LOAD)
            if is_late:  # the model is unloaded already: these devices hear of that here
                self._notify(new, NetworkEvent.BEFORE_UNLOAD)
                self._notify(new, NetworkEvent.AFTER_UNLOAD)

    @contextlib.contextmanager
    def unloading(self) -> Iterator[None]:
        """Announce the release of all parts, before and after it."""
        with self._lock:
            notified, self._notified, self._is_over = self._notified, set(), True
        self._notify(notified, NetworkEvent.BEFORE_UNLOAD)
        yield
        self._notify(notified, NetworkEvent.AFTER_UNLOAD)

    def _notify(self, remotes: Iterable[RemoteDevice], event: NetworkEvent) -> None:
        for remote in remotes:
            if not remote.gone:
                with contextlib.suppress(NnhalError):
                    remote.notify_network(self.network, event)
