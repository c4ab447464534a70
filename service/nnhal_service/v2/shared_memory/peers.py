"""Process at the other end of a TCP connection from this host: its user, and its number if it can be seen."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nnhal.user_numbers import UNKNOWN_USER, known_user
from nnhal_hosting.access import tcp_address

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = 0x01
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9
"""Columns of the tables."""

Address = tuple[str, int]
"""An IP address as hexadecimal digits, and a port. An IPv4 address that is mapped into IPv6 is the IPv4 address."""


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """Process that holds a client's end of a connection."""

    uid: int
    """Who has opened the socket."""
    inode: int
    """The inode of its socket: while that is connected, the connection is the same."""
    pid: int = 0
    """Its process; 0 if that cannot be seen, as another user's often cannot, or one of another PID namespace."""
    started: str = ""
    """The start of the process, which tells it from a later process of the same number."""
    fd: int = -1
    """The descriptor of its socket."""

    @property
    def is_connected(self) -> bool:
        if self.pid:
            return _target(f"/proc/{self.pid}/fd/{self.fd}") == f"socket:[{self.inode}]"
        return self.inode in connected_inodes()


class _Row(NamedTuple):
    """An established connection, seen from one of its ends."""

    local: Address
    remote: Address
    uid: int
    inode: int
    """0 if no process holds that end any more; it is shown as root's then."""


def clients_at(peer: str, ports: Collection[int]) -> set[ConnectedClient]:
    """Return who is connected from an address to one of this host's ports.

    ``peer`` is gRPC's name of the address, such as ``ipv4:127.0.0.1:5000``. Nobody is if the client is on another host
    or in another network namespace, if it has closed the connection, or if its user has no number in this user
    namespace. Connections to several ports may come from one address, and not all need be of one client.
    """
    address = tcp_address(peer)
    if address is None:
        return set()
    local = _canonical(address[0].packed), address[1]
    found = set()
    for row in _rows():
        uid = known_user(row.uid)
        if row.local == local and row.remote[1] in ports and row.inode and uid != UNKNOWN_USER:
            found.add(_holder(uid, row.inode) or ConnectedClient(uid, row.inode))
    return found


def connected_inodes() -> set[int]:
    return {row.inode for row in _rows()}


def started(pid: int) -> str:
    """Return when a process was started, in the kernel's ticks; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    return stat.rpartition(b")")[2].split()[19].decode()


def _rows() -> Iterator[_Row]:
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue  # a host without IPv6
        for line in lines:
            fields = line.split()
            if int(fields[_STATE], 16) == _ESTABLISHED:
                ends = _address(fields[_LOCAL]), _address(fields[_REMOTE])
                yield _Row(*ends, int(fields[_UID]), int(fields[_INODE]))


def _address(text: str) -> Address:
    """An address of the tables, which hold words of four bytes in the byte order of the host, little-endian."""
    ip, _, port = text.partition(":")
    words = [bytes.fromhex(ip[start : start + 8])[::-1] for start in range(0, len(ip), 8)]
    return _canonical(b"".join(words)), int(port, 16)


def _canonical(packed: bytes) -> str:
    mapped = ipaddress.IPv6Address(packed).ipv4_mapped if len(packed) == 16 else None
    return (mapped.packed if mapped else packed).hex()


def _holder(uid: int, inode: int) -> ConnectedClient | None:
    """The process that holds a socket; the one with the lowest number if several share it."""
    wanted = f"socket:[{inode}]"
    for pid in sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()):
        try:
            descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue  # it has ended, or belongs to another user
        for descriptor in descriptors:
            if _target(descriptor) == wanted:
                return ConnectedClient(uid, inode, pid, started(pid), int(descriptor.name))
    return None


def _target(link: str | Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - each request asks several times, and pathlib takes ten times as long
    except OSError:
        return ""
