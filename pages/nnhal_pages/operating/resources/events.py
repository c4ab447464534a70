"""What has happened, and what processes have logged."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from nnhal.v1 import admin_pb2
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.operating.snapshot import Snapshot
from nnhal_pages.operating.table import Resource, ResourceColumn

MOST_LINES = 5000
"""Lines that are asked for at a time."""


def new_lines(
    contacts: Contacts, snapshot: Snapshot, seen: MutableMapping[str, int], name: str = ""
) -> Iterator[admin_pb2.LogLine]:
    """Ask for the lines of one process, or of all, that have come since; ``seen`` has the last ones by their source.

    A supervisor of nnhal has those of all, dead ones too; without it each process is asked. Raises NnhalError.
    """
    if snapshot.supervisor is not None:
        tail = contacts.supervisor().logs(name, seen.get("", 0), MOST_LINES)
        seen[""] = tail.last
        yield from tail.lines
        return
    lines: list[admin_pb2.LogLine] = []
    for process in (snapshot.known(name),) if name else snapshot.processes:
        answer = contacts.process(process.name).log_lines(seen.get(process.name, 0), MOST_LINES)
        seen[process.name] = answer.last
        for line in answer.lines:
            line.process = process.name
        lines += answer.lines
    yield from sorted(lines, key=lambda line: line.at_ns)


EVENTS = Resource(
    "events",
    "What has happened: processes that died, devices lost and back, models planned again, fallbacks.",
    (
        ResourceColumn("at", lambda event: event.at_ns, "ns since the epoch"),
        ResourceColumn("of", lambda event: event.subject),
        ResourceColumn("what", lambda event: event.kind),
        ResourceColumn("in a sentence", lambda event: event.text),
        ResourceColumn("by", lambda event: event.who),
        ResourceColumn("before", lambda event: event.before),
    ),
    "nothing has happened",
    lambda snapshot: ((event,) for event in snapshot.events),
)
LOGS = Resource(
    "logs",
    "What processes have logged, dead ones too.",
    (
        ResourceColumn("at", lambda line: line.at_ns, "ns since the epoch"),
        ResourceColumn("process", lambda line: line.process),
        ResourceColumn("level", lambda line: line.level),
        ResourceColumn("line", lambda line: line.text),
    ),
    "no process has written a line",
    asked=lambda at, snapshot: ((line,) for line in new_lines(at.contacts, snapshot, {})),
)
