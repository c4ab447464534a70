"""The steps of a plan on devices: prepared, prepared again on a device that came back, or on the CPU in its place."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, NnhalError
from nnhal.remote import RemoteDevice, RemotePreparedModel
from nnhal.types import ErrorStatus, NetworkEvent
from nnhal_service.runtime.devices.fleet import FleetMember


@dataclass(frozen=True, slots=True)
class Part:
    """A step, prepared."""

    member: FleetMember
    prepared: RemotePreparedModel


PrepareStep = Callable[[str, int | None], Part]
"""Prepares a step, by number, on a device; without a number the whole model.

Raises HalError, or TransportError where it is gone.
"""


class Parts:
    """One part for each step. Safe to use from several threads."""

    def __init__(self, parts: Sequence[Part], prepare: PrepareStep, stand_in: str) -> None:
        """``stand_in`` is the device that takes the place of one that fails, empty where none may."""
        self._parts: dict[int | None, Part] = dict(enumerate(parts))
        self._stand_ins: dict[int | None, Part] = {}
        self._prepare = prepare
        self._stand_in = stand_in
        self._lock = threading.Lock()
        self._preparing: dict[tuple[bool, int | None], threading.Lock] = {}
        self._released = False

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        return iter(list(self._parts.values()))

    def __getitem__(self, number: int) -> Part:
        return self._parts[number]

    @property
    def may_fall_back(self) -> bool:
        """Whether another device may take the place of one that fails."""
        return bool(self._stand_in)

    def may_stand_in_for(self, device: str) -> bool:
        """Whether another device may take the place of this one."""
        return self._stand_in not in ("", device)

    def living(self, number: int) -> Part:
        """A step on its own device, prepared again where that came back. Raises as preparing does."""
        part = self._parts[number]
        if not part.member.remote.gone:
            return part
        with self._one_at_a_time(False, number):
            part = self._parts[number]
            if part.member.remote.gone:
                part = self._keep(self._parts, number, self._prepare(part.member.name, number))
            return part

    def stand_in(self, number: int | None) -> Part:
        """A step on the device that stands in, or the whole model without a number.

        Raises as preparing does, DEVICE_UNAVAILABLE where none may.
        """
        if not self._stand_in:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "no other device may take the step")
        with self._one_at_a_time(True, number):
            part = self._stand_ins.get(number)
            if part is None or part.member.remote.gone:
                part = self._keep(self._stand_ins, number, self._prepare(self._stand_in, number))
            return part

    def release(self) -> None:
        """Give them up on their devices; one that is being prepared, when it is."""
        with self._lock:
            self._released = True
            parts = [*self._parts.values(), *self._stand_ins.values()]
            self._stand_ins.clear()
        for part in parts:
            part.prepared.release()

    def _one_at_a_time(self, is_stand_in: bool, number: int | None) -> threading.Lock:
        """Held while a part is prepared; who needs another one does not wait for it."""
        with self._lock:
            return self._preparing.setdefault((is_stand_in, number), threading.Lock())

    def _keep(self, place: dict[int | None, Part], number: int | None, part: Part) -> Part:
        """Keep a part. Raises DEVICE_UNAVAILABLE, and gives it up, where all have been released."""
        with self._lock:
            if not self._released:
                place[number] = part
                return part
        part.prepared.release()
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")


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
