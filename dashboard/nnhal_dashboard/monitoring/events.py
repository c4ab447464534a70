"""Events of the testbed: which kinds of events there are, how charts mark them, and where their moment is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode

from nnhal.v1 import supervisor_pb2
from nnhal_pages.operating.snapshot import Snapshot

MARKS: Mapping[str, str] = {
    "died": "death",
    "killed": "death",
    "lost": "death",
    "started": "start",
    "back": "start",
    "added": "start",
    "stopped": "drain",
    "drained": "drain",
    "removed": "drain",
    "replanned": "plan",
    "loaded": "load",
    "unloaded": "unload",
    "failed": "failure",
    "hung": "hang",
    "fell back": "fallback",
    "fault": "fault",
    "overloaded": "overload",
    "changed": "change",
}
"""The mark of each kind of event (see ProcessEvent in supervisor.proto)."""
MOMENT_SECONDS = 5.0
"""The moment of an event is so long before it and after it."""
_QUIET_NS = 10 * 10**9
"""A device that injects one fault after the other is told of once in this time."""


def mark_of(event: supervisor_pb2.ProcessEvent) -> str:
    """Return the mark of an event; one of a kind that is not known counts as a failure."""
    return MARKS.get(event.kind, "failure")


def moment_page(event: supervisor_pb2.ProcessEvent) -> str:
    """Return the address of the runs of the moment of an event."""
    at = event.at_ns / 1e9
    return f"/runs?{urlencode({'from': written(at - MOMENT_SECONDS), 'until': written(at + MOMENT_SECONDS)})}"


def written(at: float) -> str:
    """Write an instant as addresses have it: ``2026-11-27T14:03:12Z``."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def faults_between(last: Snapshot, now: Snapshot) -> Iterator[supervisor_pb2.ProcessEvent]:
    """Yield an event for each device that has injected faults since the snapshot before: it notes none by itself."""
    before = {process.name: process.device for process in last.devices}
    at_ns = round(now.at * 1e9)
    for process in now.devices:
        old, new = before.get(process.name), process.device
        if old is None or new is None or new.injected_faults <= old.injected_faults:
            continue
        faults = (event for event in reversed(last.events) if event.kind == "fault" and event.subject == process.name)
        previous = next(faults, None)
        if previous is None or at_ns - previous.at_ns > _QUIET_NS:
            count = new.injected_faults - old.injected_faults
            text = f"device {process.name} injected {'a fault' if count == 1 else f'{count} faults'}, as it was told to"
            yield supervisor_pb2.ProcessEvent(at_ns=at_ns, subject=process.name, kind="fault", text=text)
