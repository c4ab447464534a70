"""Memory: shared memory by session, buffers of memory domains, and fences that are waited for."""

from __future__ import annotations

from typing import Any

from nnhal_pages.operating.resources.sessions import held, of_item
from nnhal_pages.operating.snapshot import ObservedProcess
from nnhal_pages.operating.table import ResourceColumn
from nnhal_pages.units import lasting


def _session(process: ObservedProcess, item: Any) -> str:
    return f"{process.name}/{item.session}" if item.session else process.name


def answered_ns(process: ObservedProcess) -> int:
    """Return when a process answered."""
    return process.process.at_ns if process.process is not None else 0


def waited(head: str) -> ResourceColumn:
    """Return how long something had waited or run when its process answered."""
    return ResourceColumn(head, lambda p, item: answered_ns(p) - item.since_ns, "ns, waited")


def deadline(process: ObservedProcess, item: Any) -> str | None:
    """Return how far off a deadline was when its process answered; None for none."""
    left = item.deadline_ns - answered_ns(process)
    return None if item.deadline_ns < 0 else f"in {lasting(left)}" if left >= 0 else f"{lasting(-left)} ago"


POOLS = held(
    "pools",
    "Shared memory of sessions, and arenas.",
    ResourceColumn("session", _session),
    of_item("kind", lambda pool: pool.kind),
    of_item("size", lambda pool: pool.bytes, "B"),
    of_item("use", lambda pool: "staged" if pool.staged else "mapped" if pool.mapped else "not used"),
    of_item("seals", lambda pool: list(pool.seals)),
    of_item("memory", lambda pool: pool.memory),
    of_item("purpose", lambda pool: pool.purpose),
)
BUFFERS = held(
    "buffers",
    "Buffers of memory domains, with their roles.",
    ResourceColumn("session", _session),
    of_item("token", lambda buffer: buffer.token),
    of_item("size", lambda buffer: buffer.bytes, "B"),
    of_item("type", lambda buffer: f"{buffer.type} [{', '.join(map(str, buffer.dimensions))}]"),
    of_item("roles", lambda buffer: list(buffer.roles)),
    of_item("holds", lambda buffer: "values" if buffer.initialized else "none"),
)
FENCES = held(
    "fences",
    "Fences that have not signalled, and who owes them.",
    ResourceColumn("session", _session),
    of_item("process", lambda fence: "owes" if fence.is_owed else "waits"),
    of_item("owed by", lambda fence: fence.owed_by),
    of_item("awaited by", lambda fence: fence.awaited_by),
    waited("age"),
)
