"""The owners of regions: client processes, or connections if their process is unknown, and when they are gone."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from nnhal.threads import LastingThread
from nnhal_hosting.access import tcp_address
from nnhal_hosting.logs import get_logger
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.shared_memory.peers import ConnectedClient, clients_at, connected_inodes, started

_LEAST_PRUNED = 64
"""The number of remembered connections above which those that have closed are forgotten."""
_POLL_MS = 250
"""How often the connections of unknown processes are checked."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RegionOwner:
    """A client: a process of this host, or else one connection.

    A process keeps its regions when it connects again, and all of its connections share them.
    """

    uid: int
    """The user who has opened the connection by which it was found."""
    pid: int
    """0 for a connection."""
    started: str
    """The start of the process, which tells it from a later process of the same number."""
    inode: int
    """That of the connection's socket; 0 for a process."""

    @classmethod
    def of(cls, client: ConnectedClient) -> RegionOwner:
        return cls(client.uid, client.pid, client.started, 0 if client.pid else client.inode)


class _Known(NamedTuple):
    """The owner behind a connection."""

    owner: RegionOwner
    client: ConnectedClient
    connection: object
    """The connection as the server that holds it knows it; None if no server has told of it."""


class Owners:
    """Finds the owner behind a connection, and reports when it is gone. Safe to use from several threads."""

    def __init__(
        self,
        gone: Callable[[RegionOwner], None],
        ports: Callable[[], Collection[int]],
        connections: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """``gone`` is called, in a thread of its own, once for each watched owner that is gone. ``ports`` tells those
        that clients connect to. ``connections`` are those that servers hold, by gRPC's names of the peers: as long as
        one is there, its owner stays the same.
        """
        self._gone = gone
        self._ports = ports
        self._connections = connections
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._prune_at = _LEAST_PRUNED
        self._watched: dict[RegionOwner, int] = {}  # the pidfd of a process, -1 for a connection
        self._wakeup, self._alarm = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread: LastingThread | None = None
        self._closed = False

    @property
    def remembered(self) -> int:
        """The connections whose process is remembered: at most twice as many as are open, or 64."""
        with self._lock:
            return len(self._known)

    def known(self, peer: str) -> RegionOwner | None:
        """The owner behind gRPC's name of a peer, if it is remembered."""
        with self._lock:
            known = self._known.get(peer)
        return known.owner if known is not None and self._is_connected(peer, known) else None

    def of(self, peer: str) -> RegionOwner:
        """The owner behind gRPC's name of a peer. Raises UNSUPPORTED if others have the same name, or its user is
        unknown.
        """
        known = self.known(peer)
        if known is not None:
            return known
        if tcp_address(peer) is None:
            raise ServingError(
                ErrorKind.UNSUPPORTED,
                "system shared memory is for clients that connect by TCP: those of a unix socket cannot be told apart",
            )
        connection = self._connections.get(peer)
        clients = clients_at(peer, self._ports())
        owners = {RegionOwner.of(client) for client in clients}
        if len(owners) != 1:
            raise ServingError(
                ErrorKind.UNSUPPORTED,
                "system shared memory: the kernel does not say which user of this host has opened the connection, "
                "expected a client on the server's host and in its network and user namespaces, and no proxy between "
                "them; other clients send tensors in their requests",
            )
        (owner,) = owners
        with self._lock:
            self._known[peer] = _Known(owner, clients.pop(), connection)
            if len(self._known) > self._prune_at:
                self._known = {peer: known for peer, known in self._known.items() if self._is_connected(peer, known)}
                self._prune_at = max(_LEAST_PRUNED, 2 * len(self._known))
        return owner

    def _is_connected(self, peer: str, known: _Known) -> bool:
        is_held = known.connection is not None and self._connections.get(peer) is known.connection
        return is_held or known.client.is_connected

    def watch(self, owner: RegionOwner) -> None:
        """Report when an owner is gone; harmless when repeated."""
        with self._lock:
            if owner in self._watched or self._closed:
                return
            self._watched[owner] = _pidfd(owner)
            if self._thread is None:
                self._thread = LastingThread(self._run, "shm-owners").started()
        os.write(self._alarm, b"\0")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            thread = self._thread
        os.write(self._alarm, b"\0")
        if thread is not None:
            thread.join()
        for pidfd in self._watched.values():
            if pidfd >= 0:
                os.close(pidfd)
        os.close(self._wakeup)
        os.close(self._alarm)

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                watched = dict(self._watched)
            poll = select.poll()
            poll.register(self._wakeup, select.POLLIN)
            for pidfd in watched.values():
                if pidfd >= 0:
                    poll.register(pidfd, select.POLLIN)
            by_connection = any(pidfd < 0 for pidfd in watched.values())
            ready = {fd for fd, _ in poll.poll(_POLL_MS if by_connection else None)}
            if self._wakeup in ready:
                os.read(self._wakeup, 4096)
            connected = connected_inodes() if by_connection else set()
            for owner, pidfd in watched.items():
                if pidfd in ready or (pidfd < 0 and not _lives(owner, connected)):
                    self._end(owner)

    def _end(self, owner: RegionOwner) -> None:
        with self._lock:
            pidfd = self._watched.pop(owner)
            self._known = {peer: known for peer, known in self._known.items() if known.owner != owner}
        if pidfd >= 0:
            os.close(pidfd)
        _log.info("a client with shared memory is gone", pid=owner.pid)
        self._gone(owner)


def _lives(owner: RegionOwner, connected: Collection[int]) -> bool:
    if not owner.inode:  # a process that had ended before it could be watched
        return bool(owner.started) and started(owner.pid) == owner.started
    return owner.inode in connected


def _pidfd(owner: RegionOwner) -> int:
    """A descriptor of the owner's process; -1 for a connection, or if the process has ended.

    The start is compared after opening: the number may belong to a later process by then.
    """
    if not owner.pid:
        return -1
    try:
        pidfd = os.pidfd_open(owner.pid)
    except OSError:
        return -1
    if started(owner.pid) == owner.started:
        return pidfd
    os.close(pidfd)
    return -1
