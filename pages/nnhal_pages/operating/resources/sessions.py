"""Sessions: who has a link open, and the end of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from nnhal.v1 import admin_pb2 as wire
from nnhal_pages.operating.plain import plain
from nnhal_pages.operating.snapshot import Detail
from nnhal_pages.operating.table import (
    Done,
    OperatedSystem,
    Resource,
    ResourceColumn,
    Verb,
    VerbChange,
    VerbOption,
    count_of,
    split_id,
)


def held(name: str, about: str, *columns: ResourceColumn, verbs: tuple[Verb, ...] = ()) -> Resource:
    """Return what processes hold, by the field of GetProcessResponse: the process, and what it says of one."""
    return Resource(
        name,
        about,
        columns,
        f"no {name}",
        lambda snapshot: ((p, item) for p in snapshot.processes if p.process for item in getattr(p.process, name)),
        value=lambda process, item: {"process": process.name, **plain(item)},
        needs=Detail.SESSIONS,
        verbs=verbs,
    )


def of_item(head: str, value: Callable[[Any], Any], unit: str = "") -> ResourceColumn:
    """Return a column of what a process holds, whichever process that is."""
    return ResourceColumn(head, lambda _, item: value(item), unit)


def owner(session: wire.SessionState) -> str:
    """Return the program that has a session, and its user."""
    return f"{session.owner}, {session.user or f'user {session.uid}'}"


def owned(session: wire.SessionState) -> str:
    """Count what a session owns."""
    return ", ".join(count_of(count.count, count.kind) for count in session.objects) or "nothing"


def end(at: OperatedSystem, session: Annotated[str, VerbOption("PROCESS/ID", names="sessions")]) -> Done:
    """End a session: its link closes, and what it owns is released."""
    process, identity = split_id(session, "session")
    at.contacts.process(process).end_session(identity)
    return Done(f"{session} has ended", {"session": session}, change=VerbChange(process))


SESSIONS = held(
    "sessions",
    "Who has a link open: client, user, command, age, and what the session owns.",
    ResourceColumn("id", lambda p, session: f"{p.name}/{session.id}"),
    of_item("client", lambda session: session.client_name),
    of_item("owner", owner),
    of_item("command", lambda session: session.command),
    of_item("age", lambda session: session.opened_ns, "ns since boot"),
    of_item("owns", owned),
    verbs=(Verb("end", end),),
)
