"""Sessions for what pages ask besides, and for what operators have done: one with each process, kept while it lives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError, TransportError
from nnhal.remote.admin import CLIENT_NAME, DeviceAdmin, FrameworkAdmin, ProcessAdmin
from nnhal.remote.faults import FaultControl, FaultState
from nnhal.remote.supervisor import SupervisorControl
from nnhal.v1.supervisor_pb2 import ProcessEvent
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot

_PATIENCE_SECONDS = 5.0
"""The time that a process may be silent during a call; one that answers may take longer for it."""


class _Session(Protocol):
    @property
    def gone(self) -> bool: ...

    def close(self) -> None: ...


S = TypeVar("S", bound=_Session)


class Contacts:
    """Sessions by process. Safe to use from several threads.

    Every method raises DeadObjectError if the process does not run, and TransportError if it does not answer.
    """

    def __init__(
        self, directory: Path, key: Callable[[], str], snapshot: Callable[[], Snapshot], name: str = CLIENT_NAME
    ) -> None:
        """``directory`` is the supervisor's. ``key`` gives the admin key, ``snapshot`` what is known at the moment.

        ``name`` is what the client calls itself.
        """
        self._directory = directory
        self._key = key
        self._snapshot = snapshot
        self._name = name
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], _Session] = {}

    def supervisor(self) -> SupervisorControl:
        """Return a session with the supervisor."""
        try:
            return self._of(
                "supervisor",
                SupervisorControl,
                str(self._directory),
                lambda: SupervisorControl(self._directory, self._name, _PATIENCE_SECONDS),
            )
        except DeadObjectError as error:
            raise DeadObjectError(f"no supervisor of nnhal is at {self._directory}: {error}") from error

    def framework(self) -> FrameworkAdmin:
        """Return a session with the framework."""
        host = self._snapshot().host
        if host is None:
            raise DeadObjectError("no framework is known; start one with 'nnhal up'")
        return self._of("framework", FrameworkAdmin, host.directory, lambda: FrameworkAdmin(*self._way(host)))

    def device(self, name: str) -> DeviceAdmin:
        """Return a session with a device. Raises LookupError if it is not known."""
        process = self._known(name)
        if process.kind != "device":
            raise LookupError(f"{name} is a {process.kind}, expected a device")
        return self._of("device", DeviceAdmin, process.directory, lambda: DeviceAdmin(*self._way(process)))

    def process(self, name: str) -> ProcessAdmin:
        """Return a session with a device or the framework. Raises LookupError if it is not known."""
        return self.framework() if self._known(name).kind == "framework" else self.device(name)

    def fault_states(self, name: str) -> list[FaultState]:
        """Return the faults of a device. Raises as ``FaultControl`` does, LookupError if it is not known."""
        with self._faults(name) as faults:
            return faults.faults()

    def set_faults(self, name: str, *faults: Mapping[str, Any]) -> list[str]:
        """Add faults to a device, and return their names. Raises as ``fault_states``."""
        with self._faults(name) as control:
            return control.set(*faults)

    def clear_faults(self, name: str, names: Sequence[str] = ()) -> int:
        """Remove faults of a device, all without names, and return how many. Raises as ``fault_states``."""
        with self._faults(name) as control:
            return control.clear(names)

    @contextmanager
    def _faults(self, name: str) -> Iterator[FaultControl]:
        """Hold a session, which ends if something cannot be asked: a device without faults has no such service."""
        directory = self._known(name).directory
        control = self._of(
            "faults", FaultControl, directory, lambda: FaultControl(Endpoint(Path(directory)), self._name)
        )
        try:
            yield control
        except TransportError:
            with self._lock:
                self._sessions.pop(("faults", directory), None)
            control.close()
            raise

    def note_change(self, change: ProcessEvent) -> None:
        """Have the supervisor keep what an operator has done, as an event; without one the framework."""
        try:
            self.supervisor().note_change(change)
        except DeadObjectError:
            self.framework().note_change(change)

    def close(self) -> None:
        """End all sessions."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            with suppress(NnhalError):
                session.close()

    def _known(self, name: str) -> ObservedProcess:
        return self._snapshot().known(name)

    def _way(self, process: ObservedProcess) -> tuple[Endpoint, str, str, float]:
        return Endpoint(Path(process.directory), process.kind), self._key(), self._name, _PATIENCE_SECONDS

    def _of(self, kind: str, wanted: type[S], directory: str, connect: Callable[[], S]) -> S:
        """Return the session that there is, or a new one if its process has ended."""
        with self._lock:
            session = self._sessions.get((kind, directory))
        if isinstance(session, wanted) and not session.gone:
            return session
        made = connect()
        with self._lock:
            other = self._sessions.get((kind, directory))
            if isinstance(other, wanted) and not other.gone:
                made.close()
                return other
            self._sessions[kind, directory] = made
        if other is not None:
            other.close()
        return made
