"""The sessions of all processes: whose they are, and what belongs to them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nnhal.v1 import admin_pb2
from nnhal_dashboard.settings import CLIENT_NAME
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot

_FRAMEWORK_CLIENT = "nnhal-framework"
"""What the framework calls itself to devices, by which it is known in another container."""


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session of a process."""

    process: str
    state: admin_pb2.SessionState
    nnhal_part: str
    """Which part of nnhal has it, such as ``this dashboard``; empty if it is a client's."""
    shared_bytes: int
    """Shared memory that it has handed over, each piece once."""

    @property
    def objects(self) -> int:
        """Return how many objects belong to it."""
        return sum(held.count for held in self.state.objects)

    @property
    def own_bytes(self) -> int:
        """Bytes that the process holds for it."""
        return sum(held.bytes for held in self.state.objects)

    @property
    def user(self) -> str:
        """The name of its user, or the number."""
        return self.state.user or f"user {self.state.uid}"

    @property
    def owner(self) -> str:
        """The command of the process that opened it, or what else is known of that."""
        if self.state.pid <= 0:
            return self.state.owner
        return self.state.command or "a process that has ended, or is not ours to read"


def open_sessions(snapshot: Snapshot) -> list[OpenSession]:
    """List the sessions, process by process, the oldest of each first."""
    return [session for process in snapshot.processes for session in sessions_of(process, snapshot)]


def sessions_of(process: ObservedProcess, snapshot: Snapshot) -> Iterator[OpenSession]:
    """Yield the sessions of a process, the oldest first."""
    said = process.last_said
    if said is None:
        return
    shared = _shared_bytes(said.pools)
    for state in said.sessions:
        yield OpenSession(process.name, state, _keeper(state, snapshot), shared[state.id])


def _shared_bytes(pools: Iterable[admin_pb2.PoolState]) -> dict[str, int]:
    pieces: dict[str, dict[str, int]] = defaultdict(dict)
    for pool in pools:
        pieces[pool.session][pool.memory] = pool.bytes
    return defaultdict(int, {session: sum(sizes.values()) for session, sizes in pieces.items()})


def _keeper(state: admin_pb2.SessionState, snapshot: Snapshot) -> str:
    """Names of clients are their own choice: they count only if the process is unknown."""
    if state.is_own or (state.pid == os.getpid() and state.client_name == CLIENT_NAME):
        return "this dashboard"
    host, supervisor = snapshot.host, snapshot.supervisor
    if state.pid <= 0:
        return {CLIENT_NAME: "a dashboard", _FRAMEWORK_CLIENT: "the framework"}.get(state.client_name, "")
    if host is not None and host.process is not None and state.pid == host.process.pid:
        return "the framework"
    if supervisor is not None and state.pid == supervisor.pid:
        return "the supervisor"
    return ""
