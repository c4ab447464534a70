"""Ends sessions of clients that are gone though their link is open.

A link closes with the last copy of the client's end. If a copy is held by who does not use it, such as this process, or
waits in a socket that nobody reads, the link stays open for ever. So the client's process is watched as well. If it has
ended and the link is open, a fork may have the client's end; then that is the client from now on.

Where it cannot be seen who has the client's end, at least this process drops what waits in its sockets.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from nnhal.descriptor import Descriptor
from nnhal.link import Channel
from nnhal.threads import LastingThread
from nnhal_hosting.inflight_descriptors import InflightWatch
from nnhal_hosting.logs import get_logger
from nnhal_hosting.process_start import TICK_NS
from nnhal_hosting.socket_holders import Holders, find_holders, peer_inode

_log = get_logger(__name__)
_SO_PEERPIDFD = 77
_LOOK_SECONDS = 0.25
"""The time that to wait before each look for who holds a link whose client has ended."""
_LOOKS = 2
"""How often nobody must be found before a session ends: a process may be forked during a look."""
_SWEEP_SECONDS = 2.0
"""How often descriptors in flight are looked for while it is unknown who holds the link of a client that has ended."""


class LinkedClient(Protocol):
    """Facts about the client of a session."""

    pid: int
    """Its process; 0 if that is in a foreign PID namespace."""
    uid: int
    opened_ns: int
    """When it opened the session, by CLOCK_BOOTTIME."""

    @property
    def title(self) -> str:
        """Its name and who it is, for logs."""
        ...


@dataclass(slots=True, eq=False)
class _Link:
    client: LinkedClient
    channel: Channel
    process: Descriptor | None = None
    """A pidfd of the client's process; None once that has ended."""
    looks: int = 0


class ClientProcesses:
    """Watches the processes of clients, in a thread of its own. Safe to use from several threads.

    Whoever shares this process is not watched. If the kernel or /proc does not say who holds a socket, as for clients
    in foreign namespaces, a session stays until its link closes.
    """

    def __init__(self) -> None:
        """Raises OSError."""
        self._lock = threading.Lock()
        self._links: dict[LinkedClient, _Link] = {}
        self._by_process: dict[int, _Link] = {}
        self._orphans: set[_Link] = set()
        self._unseen: set[_Link] = set()  # the client has ended, and it is unknown who holds the link
        self._inflight = InflightWatch()
        self._look_at = self._sweep_at = 0.0
        self._closing = False
        self._epoll = select.epoll()
        self._alarm = Descriptor(os.eventfd(0, os.EFD_CLOEXEC))
        self._epoll.register(self._alarm.fileno(), select.EPOLLIN)
        self._thread = LastingThread(self._run, "link-clients")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop watching. Further calls have no effect."""
        if self._closing:
            return
        self._closing = True
        os.eventfd_write(self._alarm.fileno(), 1)
        if self._thread.ident is not None:
            self._thread.join()
        self._epoll.close()
        self._alarm.close()

    def watch(self, client: LinkedClient, connection: socket.socket, channel: Channel) -> None:
        """Watch the process of a client that has connected just now, and shut ``channel`` down when it is gone."""
        if client.pid == os.getpid():
            return
        link = _Link(client, channel)
        with self._lock:
            self._links[client] = link
            with suppress(OSError):  # no descriptor is left: the session ends with its link
                self._follow(link, lambda: _process_behind(connection, client.pid))

    def forget(self, client: LinkedClient) -> None:
        """Stop watching a client, before its channel is closed; harmless if it is not watched."""
        with self._lock:
            link = self._links.pop(client, None)
            if link is not None:
                self._orphans.discard(link)
                self._unseen.discard(link)
                self._drop_process(link)

    def _follow(self, link: _Link, open_process: Callable[[], Descriptor]) -> None:
        """Watch a process for a link; look who holds the link if it has ended. Raises OSError. The lock is held."""
        try:
            link.process = open_process()
        except ProcessLookupError:
            self._look_for(link)
            return
        self._by_process[link.process.fileno()] = link
        self._epoll.register(link.process.fileno(), select.EPOLLIN)

    def _drop_process(self, link: _Link) -> None:
        process, link.process = link.process, None
        if process is not None:
            self._by_process.pop(process.fileno(), None)
            with suppress(OSError):
                self._epoll.unregister(process.fileno())
            process.close()

    def _look_for(self, link: _Link) -> None:
        if link.client.pid <= 0:
            self._give_up(link)
            return
        if not self._orphans:
            self._look_at = time.monotonic() + _LOOK_SECONDS
            os.eventfd_write(self._alarm.fileno(), 1)
        self._orphans.add(link)
        link.looks = 0

    def _give_up(self, link: _Link) -> None:
        """Leave it at sweeps, since who holds the link cannot be seen."""
        if not self._unseen:
            self._sweep_at = time.monotonic() + _SWEEP_SECONDS
            os.eventfd_write(self._alarm.fileno(), 1)
        self._orphans.discard(link)
        self._unseen.add(link)

    def _run(self) -> None:
        while True:
            events = self._epoll.poll(self._seconds_to_wait())
            if self._closing:
                return
            for number, _ in events:
                if number == self._alarm.fileno():
                    os.eventfd_read(number)
                else:
                    self._has_ended(number)
            if self._orphans and time.monotonic() >= self._look_at:
                self._look()
                self._look_at = time.monotonic() + _LOOK_SECONDS
            if self._unseen and time.monotonic() >= self._sweep_at:
                self._inflight.drop_stuck()
                self._sweep_at = time.monotonic() + _SWEEP_SECONDS

    def _seconds_to_wait(self) -> float | None:
        instants = [*([self._look_at] if self._orphans else []), *([self._sweep_at] if self._unseen else [])]
        return max(0.0, min(instants) - time.monotonic()) if instants else None

    def _has_ended(self, process: int) -> None:
        with self._lock:
            link = self._by_process.get(process)
            if link is not None and _is_readable(process):  # and not another one by the same number meanwhile
                self._drop_process(link)
                if not link.channel.hung_up:  # as usual, the client's end was closed with its process
                    self._look_for(link)

    def _look(self) -> None:
        """Look who holds the links whose clients have ended."""
        with self._lock:
            self._orphans = {link for link in self._orphans if not link.channel.hung_up}
            inodes = {link: peer_inode(link.channel.fileno()) for link in self._orphans}
        known = {link: inode for link, inode in inodes.items() if inode is not None}
        holders = find_holders(set(known.values())) if known else None
        with self._lock:
            for link in inodes.keys() & self._orphans:
                if link not in known or holders is None:
                    self._give_up(link)
                else:
                    self._settle(link, known[link], holders)

    def _settle(self, link: _Link, inode: int, holders: Holders) -> None:
        """Watch who holds a link, or shut it down if nobody does. The lock is held."""
        holder, client = holders.by_inode.get(inode), link.client
        suspect = holder or _hidden_holder(client, holders)
        if suspect is not None:
            if holder is not None:
                _log.info("a link passes on to another process", client=client.title, process=holder)
                client.pid = holder
            self._orphans.discard(link)
            with suppress(OSError):
                self._follow(link, lambda: Descriptor(os.pidfd_open(suspect)))
            return
        link.looks += 1
        if link.looks >= _LOOKS:
            self._orphans.discard(link)
            _log.warning("link ended: its client has ended, and no other process has the link", client=client.title)
            link.channel.shutdown()


def _is_readable(number: int) -> bool:
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def _process_behind(connection: socket.socket, pid: int) -> Descriptor:
    """Return a pidfd of the process that has connected. Raises ProcessLookupError if it has ended, and OSError."""
    try:
        return Descriptor(connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ESRCH):
            raise ProcessLookupError from error
        if error.errno != errno.ENOPROTOOPT or pid <= 0:  # as before Linux 6.5
            raise
    return Descriptor(os.pidfd_open(pid))


def _hidden_holder(client: LinkedClient, holders: Holders) -> int | None:
    """Return a process that may hold the link of a client, as far as can be seen: a fork of it, of the same user."""
    forks = (
        process.pid
        for process in holders.hidden
        if client.uid in process.uids and process.started_ns + TICK_NS > client.opened_ns
    )
    return next(forks, None)
