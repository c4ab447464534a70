"""Models with arenas, and when another plan may have made other ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnhal_dashboard.monitoring.plans import PlanSubject
from nnhal_pages.operating.snapshot import Snapshot

_REPLANNING = {"loaded", "unloaded", "replanned", "fell back", "lost", "back"}
"""Kinds of events after which a model may run by another plan."""


@dataclass(frozen=True, slots=True)
class ArenaOwner:
    """A model that has an arena, or may have one: its plan has several steps."""

    subject: PlanSubject
    devices: Sequence[str]
    bytes: int
    missing: Sequence[str] = ()
    """Devices that are missing, so that it runs by another plan than its own."""


def arena_owners(snapshot: Snapshot) -> list[ArenaOwner]:
    """List the models with arenas, the largest first."""
    owners = [owner for owner in _models(snapshot) if owner.bytes or len(owner.devices) > 1]
    return sorted(owners, key=lambda owner: (-owner.bytes, owner.subject.session, owner.subject))


def find_owner(snapshot: Snapshot, model: str, version: str, session: str) -> ArenaOwner:
    """Return a loaded model. Raises LookupError."""
    for owner in _models(snapshot):
        if owner.subject.may_be(PlanSubject(model, version, session)):
            return owner
    where = f"of session {session}" if session else "of the repository"
    raise LookupError(f"no model {model!r} {where} is loaded{f' in version {version}' if version else ''}")


def plan_state(snapshot: Snapshot) -> object:
    """Return what differs if a model may run by another plan than before."""
    return _started(snapshot), _last_change(snapshot)


def _models(snapshot: Snapshot) -> Iterator[ArenaOwner]:
    framework = snapshot.framework
    if framework is None:
        return
    for model in framework.models:
        if model.state == "READY":
            subject = PlanSubject(model.name, model.version)
            yield ArenaOwner(subject, tuple(model.devices), model.arena_bytes, tuple(model.missing))
    for loaded in framework.session_models:
        yield ArenaOwner(PlanSubject(loaded.name, "", loaded.session), tuple(loaded.devices), loaded.arena_bytes)


def _started(snapshot: Snapshot) -> int:
    host = snapshot.host
    return host.process.started_ns if host is not None and host.process is not None else 0


def _last_change(snapshot: Snapshot) -> int:
    return max((event.at_ns for event in snapshot.events if event.kind in _REPLANNING), default=0)
