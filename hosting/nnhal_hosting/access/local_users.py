"""Users of this host who may use a TCP port without a token: the kernel is asked who is at the other end.

It is asked for each request, which takes some microseconds, unless the caller knows that the connection is the same. An
answer that was kept by the client's address would be another client's as soon as the port is used again.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import unquote

from nnhal.user_numbers import UNKNOWN_USER, known_user
from nnhal_hosting.access.listeners import TcpListener
from nnhal_hosting.socket_diagnosis import ALL_STATES, ANY_COOKIE, SocketDiagnosis

_QUESTION = struct.Struct("=BBBBI")
_SOCKET = struct.Struct("!HH16s16s")
_NO_INTERFACE = bytes(4)
_UID_AND_INODE = struct.Struct("=II")
_UID_AT = 64
"""Where they are in ``inet_diag_msg``."""
_STATE_AT = 1
_LISTENS = 10
_LOCALHOST = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_UNIX = "unix:"


class LocalUsers:
    """The users of this host who may do everything at a port: that of this process, root, and those that are named.

    Safe to use from several threads.
    """

    def __init__(self, listener: TcpListener, uids: Collection[int] = ()) -> None:
        """``listener`` has the port's own address, with the port that was chosen."""
        self._listener = listener
        self._uids = {0, os.geteuid(), *uids} - {UNKNOWN_USER}
        try:
            self._diagnosis: SocketDiagnosis | None = SocketDiagnosis()
        except OSError:
            self._diagnosis = None

    @classmethod
    def of(cls, listener: TcpListener, shows_credentials: bool, uids: Collection[int] = ()) -> LocalUsers | None:
        """The users of a port; None if it lets in whoever reaches it, and no user of this host is special.

        So it is if clients show tokens or certificates, and if other hosts reach the port, which then is as open as
        ``require_safe`` has let the operator have it.
        """
        return None if shows_credentials or not listener.is_loopback else cls(listener, uids)

    def objection(self, peer: str) -> str:
        """Say why a client may not be served; empty if it may.

        ``peer`` is its address as gRPC writes it, such as ``ipv4:127.0.0.1:5000``. Whoever opens a unix socket was let
        in by the permissions of its file.
        """
        if peer.startswith(_UNIX):
            return ""
        uid = self._uid(peer)
        if uid in self._uids:
            return ""
        own = f"user {os.geteuid()}, who runs the server"
        if uid == UNKNOWN_USER:
            return (
                f"the kernel does not say which user of this host sent this request, expected {own}; a client behind a "
                "proxy, or in a namespace of its own, needs a token, and the server the option --tokens"
            )
        return (
            f"user {uid} of this host sent this request, expected {own}; NNHAL_…_ALLOWED_UIDS of the server admits "
            "other users, and --tokens whoever has a token"
        )

    def _uid(self, peer: str) -> int:
        """The user who has opened the client's socket; UNKNOWN_USER if that cannot be seen."""
        question = _question(peer, self._listener)
        answer = self._diagnosis.answer(question) if self._diagnosis is not None and question else None
        if answer is None or answer[_STATE_AT] == _LISTENS:  # as the kernel answers if the connection is gone
            return UNKNOWN_USER
        uid, inode = _UID_AND_INODE.unpack_from(answer, _UID_AT)
        return known_user(uid) if inode else UNKNOWN_USER  # a socket that its process has closed is shown as root's


def peer_name(client: tuple[str, int] | None) -> str:
    """The address of a client as gRPC writes it, from the ``client`` of an ASGI scope; empty if it is unknown."""
    if client is None:  # it has left before anybody could ask
        return ""
    host, port = client
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def tcp_address(peer: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int] | None:
    """The address and the port in gRPC's name of a peer; None unless it is a TCP connection."""
    family, _, rest = peer.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if family not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    try:
        return ipaddress.ip_address(host.strip("[]")), int(port)
    except ValueError:
        return None


@lru_cache(1024)
def _question(peer: str, listener: TcpListener) -> bytes:
    """Return what to ask the kernel about the client's end of a connection; empty if that is no TCP connection."""
    client = tcp_address(peer)
    if client is None:
        return b""
    address, port = client
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    own = _LOCALHOST[family] if listener.host == "localhost" else listener.host
    ends = _SOCKET.pack(port, listener.port, address.packed, ipaddress.ip_address(own).packed)
    return _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, ALL_STATES) + ends + _NO_INTERFACE + ANY_COOKIE
