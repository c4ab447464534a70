"""Models that have killed the process of a device, which its driver is not given again.

A device has died of a model if its process crashed while it prepared the model or ran it for the first time, and did
nothing else of that kind meanwhile; else if it has done so twice. Whoever watches the process leaves word of how it
ended: one that was killed by SIGKILL or SIGTERM, or that nobody watches, is not held against a model. A driver of
another version may be given the model.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from nnhal.admin import EXIT_STATUS
from nnhal.codec.model import graphs_to_wire
from nnhal.errors import HalError, NnhalError, TransportError
from nnhal.given_files import parse_json, read_given_file
from nnhal.memory import read_pools
from nnhal.private_folders import make_private_folder
from nnhal.remote import RemoteDevice
from nnhal.shares import tenant
from nnhal.types import ErrorStatus, Model
from nnhal.whole_files import write_whole
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.devices.notes import Note, no_note
from nnhal_service.runtime.devices.registration import FleetMember

_CRASH = re.compile(rf"was killed by SIG(ABRT|BUS|FPE|ILL|SEGV|SYS)|ended with status (?!0$|{EXIT_STATUS}$)\d+")
"""Ends that are the work of what the process did; EXIT_STATUS is that of one that was given up."""
_WORD_SECONDS, _LOOK_SECONDS = 2.0, 0.02
"""How long word of an end is awaited, and between two looks: the process is reaped soon after its link has ended."""
_MOST_KEPT = 256
_MOST_BYTES = 1 << 20
_never = threading.Event()
_log = get_logger(__name__)


class FatalModelError(HalError):
    """A device is not given a model that its driver has died of."""


@dataclass(frozen=True, slots=True)
class FatalModel:
    """A model that a driver has died of."""

    version: str
    """The driver and its version."""
    digest: str
    """Of the model."""
    said: str
    """What happened, in words."""


@dataclass(eq=False, slots=True)
class _Suspect:
    """Work of a device that it may die of."""

    remote: RemoteDevice
    is_alone: bool = True


class FatalModels:
    """Models that drivers have died of. Safe to use from several threads."""

    def __init__(self, directory: str = "", note: Note = no_note) -> None:
        """It is kept in a directory, if one is named. ``note`` is called for each model."""
        self._path = Path(directory, "fatal_models.json") if directory else None
        self._note = note
        self._lock = threading.Lock()
        self._active: set[_Suspect] = set()
        self._deaths = {(death.version, death.digest): death for death in self._read()}
        self._suspected: set[tuple[str, str]] = set()
        """Models that a driver may have died of, besides others."""

    @contextlib.contextmanager
    def doing(self, member: FleetMember, what: str, models: Callable[[], Sequence[Model]]) -> Iterator[None]:
        """Have a device do something with models within the context, ``what`` in words: remember if it dies of that.

        Raises FatalModelError in place of the error that tells of its death.
        """
        suspect, was_gone = _Suspect(member.remote), member.remote.gone
        pid = 0 if was_gone else _pid_of(member.remote)
        with self._lock:
            for other in self._active:
                if other.remote is member.remote:
                    other.is_alone = suspect.is_alone = False
            self._active.add(suspect)
        try:
            yield
        except TransportError as error:  # perhaps before the end of its link is noticed
            if not was_gone:
                self._note_death(member, pid, what, models, suspect.is_alone)
                was_gone = True
                try:
                    self.require_harmless(member, models)
                except FatalModelError as fatal:
                    raise fatal from error
            raise
        finally:
            with self._lock:
                self._active.discard(suspect)
            if member.remote.gone and not was_gone:
                self._note_death(member, pid, what, models, suspect.is_alone)

    def require_harmless(self, member: FleetMember, models: Callable[[], Sequence[Model]]) -> None:
        """Raise FatalModelError if the driver of a device has died of one of these models."""
        if not any(version == member.version for version, _ in list(self._deaths)):
            return
        for model in models():
            death = self._deaths.get((member.version, digest_of(model)))
            if death is not None:
                _refuse(member.name, death)

    def forget(self, version: str) -> None:
        """Forget what a driver has died of."""
        with self._lock:
            before = len(self._deaths)
            self._deaths = {key: death for key, death in self._deaths.items() if death.version != version}
            self._suspected = {key for key in self._suspected if key[0] != version}
            if len(self._deaths) < before:
                self._keep()

    def _note_death(
        self, member: FleetMember, pid: int, what: str, models: Callable[[], Sequence[Model]], is_alone: bool
    ) -> None:
        how = _end_of(member, pid)
        if not _CRASH.fullmatch(how):
            return
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        whose = f" of {tenant().levels[-1].title}" if tenant().levels else ""
        for model in models():
            try:
                key = member.version, digest_of(model)
            except NnhalError as error:
                _log.info("a model cannot be remembered", device=member.name, reason=str(error))
                continue
            said = f"device {member.name} {how} at {when} while it {what} the model {key[1][:12]}{whose}"
            with self._lock:
                if not is_alone and key not in self._suspected:
                    self._suspected.add(key)
                    continue
                self._deaths[key] = FatalModel(*key, said)
                while len(self._deaths) > _MOST_KEPT:
                    del self._deaths[next(iter(self._deaths))]
                self._keep()
            _log.warning("a device has died of a model", device=member.name, reason=said)
            self._note("failed", member.name, f"{said}: it is not given the model again")

    def _read(self) -> list[FatalModel]:
        if self._path is None:
            return []
        try:
            return [
                FatalModel(**death) for death in parse_json(read_given_file(self._path, _MOST_BYTES, "fatal models"))
            ]
        except FileNotFoundError:
            return []
        except (OSError, TypeError, ValueError) as error:
            _log.warning("what drivers have died of cannot be read", reason=str(error))
            return []

    def _keep(self) -> None:
        """Write all down; the lock is held."""
        if self._path is None:
            return
        try:
            make_private_folder(self._path.parent)
            write_whole(self._path, json.dumps([asdict(death) for death in self._deaths.values()]).encode())
        except (OSError, ValueError) as error:
            _log.warning("what drivers have died of cannot be kept", reason=str(error))


def digest_of(model: Model) -> str:
    """Return a digest of a model and its constants. Raises NnhalError if a pool cannot be read."""
    found = sha256(graphs_to_wire(model))
    for content in read_pools(model.pools).values():
        found.update(content.data)
    return found.hexdigest()


def _pid_of(remote: RemoteDevice) -> int:
    try:
        return remote.pid
    except OSError:  # it has died just now
        return 0


def _end_of(member: FleetMember, pid: int) -> str:
    """Return in words in which way the process of a device ended; empty if nobody says so."""
    until = time.monotonic() + _WORD_SECONDS
    while not (end := member.remote.endpoint.end_of(pid)) and time.monotonic() < until:
        _never.wait(_LOOK_SECONDS)
    return end


def _refuse(device: str, death: FatalModel) -> NoReturn:
    raise FatalModelError(
        ErrorStatus.GENERAL_FAILURE,
        f"{death.said}: {device} is not given it again until its driver has another version than {death.version!r}, or "
        f"'nnhal ctl drain {device}' and 'nnhal ctl start {device}' have it forgotten",
    )
