"""The faults of devices that were started with ``--allow-faults``, asked for while a page shows them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from nnhal.errors import NnhalError
from nnhal.remote.faults import FaultState
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.operating.snapshot import ObservedProcess


@dataclass(frozen=True, slots=True)
class ReportedFaults:
    """Faults that a device reports."""

    states: Sequence[FaultState]
    refusal: str
    """Why it has none to show; empty if it takes faults."""
    pid: int
    """The process that said so."""


class FaultWatch:
    """Keeps what each device said last. Safe to use from several threads."""

    def __init__(self, contacts: Contacts, submit: Callable[[Callable[[], object]], Future[Any]]) -> None:
        """``submit`` runs what asks a device, elsewhere."""
        self._contacts = contacts
        self._submit = submit
        self._lock = threading.Lock()
        self._known: dict[str, ReportedFaults] = {}
        self._asking: dict[str, Future[Any]] = {}

    def ask(self, process: ObservedProcess) -> ReportedFaults | None:
        """Ask a device. Returns None if it does not answer anyway."""
        if not process.answers:
            return None
        try:
            found = ReportedFaults(self._contacts.fault_states(process.name), "", _pid(process))
        except (NnhalError, LookupError) as error:
            found = ReportedFaults((), str(error), _pid(process))
        with self._lock:
            self._known[process.name] = found
        return found

    def of(self, process: ObservedProcess) -> ReportedFaults | None:
        """Return what a device said last, None if it does not answer, and have it asked again meanwhile.

        A process that takes no faults is not asked again.
        """
        if not process.answers:
            return None
        with self._lock:
            known, asking = self._known.get(process.name), self._asking.get(process.name)
        takes_none = known is not None and known.refusal and known.pid == _pid(process)
        if not takes_none and (asking is None or asking.done()):
            asked = self._submit(lambda: self.ask(process))
            with self._lock:
                self._asking[process.name] = asked
        return known


def _pid(process: ObservedProcess) -> int:
    return process.process.pid if process.process is not None else 0
