"""Questions to the kernel about single sockets of this network namespace: sock_diag(7)."""

from __future__ import annotations

import os
import socket
import struct
import threading

from nnhal.descriptor import Descriptor

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_FLAG = 1
_LONGEST_ANSWER = 4096
_HEADER = struct.Struct("=IHHII")

ANY_COOKIE = b"\xff" * 8
"""The cookie of a question about whichever socket has the address or the inode."""
ALL_STATES = 0xFFFFFFFF


class SocketDiagnosis:
    """A way to ask. Safe to use from several threads."""

    def __init__(self) -> None:
        """Raises OSError if this process may not ask, as in a service whose unit leaves out AF_NETLINK."""
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._netlink = Descriptor(socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG).detach())
        self._lock = threading.Lock()
        self._number = 0

    def answer(self, question: bytes) -> bytes | None:
        """Return the kernel's answer to a question of the socket's family; None if it knows no such socket.

        It answers at once, within the call that asks.
        """
        with self._lock:
            self._number = (self._number + 1) & 0xFFFFFFFF
            head = _HEADER.pack(_HEADER.size + len(question), _SOCK_DIAG_BY_FAMILY, _REQUEST_FLAG, self._number, 0)
            try:
                os.write(self._netlink.fileno(), head + question)
                answer = os.read(self._netlink.fileno(), _LONGEST_ANSWER)
            except OSError:
                return None
        length, kind, _, number, _ = _HEADER.unpack_from(answer)
        if kind != _SOCK_DIAG_BY_FAMILY or number != self._number:
            return None
        return answer[_HEADER.size : length]
