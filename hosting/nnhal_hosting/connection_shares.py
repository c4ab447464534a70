"""Shares of the connections that gRPC accepts at a unix socket, so that no client keeps all others out.

gRPC bounds how many connections a server has, but asks nobody whether to accept one. So a thread looks at those that
the process has when others come, and ends those by which a client exceeds its share.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from nnhal.descriptor import Descriptor
from nnhal.link.channel import peer_credentials
from nnhal.threads import LastingThread
from nnhal_hosting.logs import get_logger
from nnhal_hosting.own_sockets import count_descriptors, own_sockets
from nnhal_hosting.spare_descriptor import FOR_LOOKS

_RESERVED = 8
"""One in so many connections is for others than the process that has the most."""
_PAUSE_SECONDS = 0.05
"""What comes within this time is looked at together, when gRPC has accepted it."""
_log = get_logger(__name__)


class ConnectionShares:
    """Keeps each process to seven eighths of the connections at a path, and each user but this one and root to half.

    It does so while it is used as a context. Limits below 8 have no shares.
    """

    def __init__(self, path: Path, limit: int) -> None:
        """``limit`` is how many connections the server at the path has at most."""
        self._path = str(path)
        self._limit = limit
        self._over = threading.Event()
        self._alarm, self._alarmed = socket.socketpair()
        self._thread = LastingThread(self._watch, "rpc-shares")

    def __enter__(self) -> ConnectionShares:
        if self._limit >= _RESERVED:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._alarm.close()
        if self._thread.ident is not None:
            self._thread.join()
        self._alarmed.close()

    def _watch(self) -> None:
        with select.epoll() as arrivals:
            arrivals.register(self._alarmed.fileno(), select.EPOLLIN)
            kept = []
            for end in self._ends():
                if _listens(end):
                    kept.append(Descriptor(os.dup(end.fileno())))  # socket.dup() would have gRPC's accept block
                    arrivals.register(kept[-1].fileno(), select.EPOLLIN | select.EPOLLET)
            while not self._over.is_set():
                arrivals.poll()
                if not self._over.wait(_PAUSE_SECONDS):
                    self._look()

    def _look(self) -> None:
        FOR_LOOKS.used_for(self._end_excess)

    def _end_excess(self) -> None:
        if count_descriptors() <= self._limit // 2:
            return
        counts: Counter[tuple[str, int]] = Counter()
        ended: Counter[tuple[str, int]] = Counter()
        for end in self._ends():
            with suppress(OSError):  # a client may leave meanwhile
                if _listens(end):
                    continue
                pid, uid = peer_credentials(end)
                is_other = uid not in {0, os.geteuid()}
                client = ("user", uid) if is_other else ("process", pid)
                counts[client] += 1
                share = self._limit // 2 if is_other else self._limit - self._limit // _RESERVED
                if counts[client] > share and client != ("process", 0):  # 0 are the processes of other containers
                    end.shutdown(socket.SHUT_RDWR)
                    ended[client] += 1
        for (kind, number), count in ended.items():
            _log.warning("connections ended: too many of one client", client=f"{kind} {number}", ended=count)

    def _ends(self) -> Iterator[socket.socket]:
        """This process's ends of the sockets at the path, each as long as it is looked at."""
        return (end for end in own_sockets() if end.family == socket.AF_UNIX and end.getsockname() == self._path)


def _listens(end: socket.socket) -> bool:
    return bool(end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
