"""Which sessions are shown, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from nnhal_dashboard.world.open_sessions import OpenSession

SHOWN = 300
"""Sessions on a page at most."""
_ORDERS: Mapping[str, Callable[[OpenSession], Any]] = {
    "process": lambda _: 0,
    "age": lambda session: session.state.opened_ns,
    "owner": lambda session: (session.user, session.state.pid),
    "client": lambda session: session.keeper or session.state.client_name,
    "objects": lambda session: -session.objects,
    "own": lambda session: -session.own_bytes,
    "shared": lambda session: -session.shared_bytes,
    "descriptors": lambda session: -session.state.descriptors,
}
"""Sorting is stable: what is equal stays by process and age."""
ORDERS = tuple(_ORDERS)


@dataclass(frozen=True, slots=True)
class SessionSelection:
    """What a session must be, and the order; an empty value asks for nothing."""

    process: str = ""
    text: str = ""
    """What its owner, command or client name contains, in any case; or its process id."""
    sort: str = "process"

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> SessionSelection:
        """Return the selection of a query. Raises LookupError for an unknown order."""
        chosen = cls(parameters.get("process", ""), parameters.get("text", ""), parameters.get("sort") or "process")
        if chosen.sort not in _ORDERS:
            raise LookupError(f"sort is {chosen.sort!r}, expected one of {', '.join(_ORDERS)}")
        return chosen

    @property
    def parameters(self) -> dict[str, str]:
        """The query of the selection."""
        given = {"process": self.process, "text": self.text, "sort": self.sort if self.sort != "process" else ""}
        return {name: value for name, value in given.items() if value}

    def sorted_by(self, order: str) -> str:
        """The address of the same sessions in another order."""
        query = urlencode({name: value for name, value in self.parameters.items() if name != "sort"} | {"sort": order})
        return f"/sessions?{query}"

    def of_sessions(self, sessions: Sequence[OpenSession]) -> list[OpenSession]:
        """Return the sessions that are as asked, in order."""
        return sorted((session for session in sessions if self._takes(session)), key=_ORDERS[self.sort])

    def _takes(self, session: OpenSession) -> bool:
        if self.process and session.process != self.process:
            return False
        wanted = self.text.lower()
        said = (session.user, session.owner, session.state.client_name, session.keeper)
        return not wanted or wanted == str(session.state.pid) or any(wanted in text.lower() for text in said)
