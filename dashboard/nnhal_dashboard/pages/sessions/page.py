"""The list of sessions, the page of each, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.open_sessions import OpenSession, open_sessions, sessions_of
from nnhal_dashboard.monitoring.shared_memory import shared_memories
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of, selection_of, show_page
from nnhal_dashboard.web.selection import QuerySelection
from nnhal_pages.operating.resources.sessions import end as end_session
from nnhal_pages.operating.snapshot import Detail, Snapshot

SHOWN = 300
"""Sessions on a page at most."""
_ORDERS: Mapping[str, Callable[[OpenSession], Any]] = {
    "process": lambda _: 0,
    "age": lambda session: session.state.opened_ns,
    "owner": lambda session: (session.user, session.state.pid),
    "client": lambda session: session.nnhal_part or session.state.client_name,
    "objects": lambda session: -session.objects,
    "own": lambda session: -session.own_bytes,
    "shared": lambda session: -session.shared_bytes,
    "descriptors": lambda session: -session.state.descriptors,
}
"""Sorting is stable: what is equal stays by process and age."""
ORDERS = tuple(_ORDERS)


def selected(parameters: Mapping[str, str]) -> QuerySelection:
    """Return what sessions a query selects, and in which order. Raises ValueError for an unknown order."""
    return QuerySelection.of(parameters, ("process", "text", "sort"), {"sort": ORDERS})


def sessions_as_asked(selection: QuerySelection, sessions: Sequence[OpenSession]) -> list[OpenSession]:
    """Return the sessions that are as asked, in order."""
    return sorted(
        (session for session in sessions if _takes(selection, session)), key=_ORDERS[selection["sort"] or "process"]
    )


def _takes(selection: QuerySelection, session: OpenSession) -> bool:
    said = (session.user, session.owner, session.state.client_name, session.nnhal_part)
    is_asked = selection["text"] == str(session.state.pid) or selection.is_within("text", *said)
    return is_asked and selection.is_any_or("process", session.process)


router = APIRouter()


@router.get("/sessions")
def sessions(request: Request) -> Response:
    """Show the sessions that the query selects."""
    selection = selection_of(request, selected)
    snapshot = collector_of(request).look(Detail.SESSIONS)
    names = [process.name for process in snapshot.processes if process.kind != "dashboard"]
    values = {"selection": selection, "names": names, "orders": ORDERS}
    return show_page(request, "sessions/sessions.html", values, "Sessions")


@router.get("/sessions/{process}/{session}")
def session(request: Request, process: str, session: str) -> Response:
    """Show a session and everything that it holds."""
    if _found(collector_of(request).look(Detail.SESSIONS), process, session) is None:
        raise LookupError(f"{process} has no session {session!r}: it has ended, or the process was started again")
    values = {"process": process, "session": session}
    title = f"Session {session} of {process}"
    return show_page(request, "sessions/session.html", values, title)


@router.post("/sessions/end")
def end(
    request: Request, visitor: OperatorForm, process: Annotated[str, Form()], session: Annotated[str, Form()]
) -> Response:
    """End a session."""
    return done(request, visitor, lambda at: end_session(at, f"{process}/{session}"), "/sessions")


def _table(moment: Moment) -> Mapping[str, Any]:
    selection = selected(moment.parameters)
    everything = open_sessions(moment.snapshot)
    chosen = sessions_as_asked(selection, everything)
    processes = [process for process in moment.snapshot.processes if process.kind != "dashboard"]
    return {
        "sessions": chosen[:SHOWN],
        "left_out": len(chosen) - SHOWN,
        "count": len(everything),
        "selection": selection,
        "sort": selection["sort"] or "process",
        "by": {order: f"/sessions?{urlencode({**selection.parameters, 'sort': order})}" for order in ORDERS},
        "unknown": [process.name for process in processes if process.last_said is None],
        "hidden": [process.name for process in processes if process.last_said and not process.last_said.is_whole],
    }


def _one(moment: Moment) -> Mapping[str, Any]:
    process, session = moment.parameters["process"], moment.parameters["session"]
    found = _found(moment.snapshot, process, session)
    known = moment.snapshot.find(process)
    said = known.last_said if known is not None else None
    framework = moment.snapshot.framework if known is not None and known.kind == "framework" else None

    def own(items: Any) -> list[Any]:
        return [item for item in items if item.session == session]

    return {
        "process": process,
        "session": found,
        "silence": known.silence if known is not None else "",
        "pieces": shared_memories(moment.snapshot, process, session),
        "executions": own(said.executions) if said is not None else [],
        "buffers": [(process, buffer) for buffer in own(said.buffers)] if said is not None else [],
        "fences": [(process, fence) for fence in own(said.fences)] if said is not None else [],
        "models": own(framework.session_models) if framework is not None else [],
        "is_framework": framework is not None,
    }


def _found(snapshot: Snapshot, process: str, session: str) -> OpenSession | None:
    known = snapshot.find(process)
    if known is None:
        return None
    return next((each for each in sessions_of(known, snapshot) if each.state.id == session), None)


FRAGMENTS = (
    Fragment("sessions.table", "sessions/table.html", _table, Detail.SESSIONS),
    Fragment("sessions.one", "sessions/one.html", _one, Detail.SESSIONS),
)
