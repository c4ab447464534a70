"""The process at the other end of a TCP connection, if it is on this host."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nnhal_hosting.access import tcp_address

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = 0x01
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9
"""Columns of the tables."""

Address = tuple[str, int]
"""An IP address as hexadecimal digits, and a port. An IPv4 address that is mapped into IPv6 is the IPv4 address."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds one end of a connection."""

    pid: int
    started: str
    """Its start, which tells it from a later process of the same number."""
    uid: int
    fd: int
    """The descriptor of its socket."""
    inode: int
    """The inode of its socket: while ``fd`` refers to it, the connection is the same."""

    @property
    def is_connected(self) -> bool:
        """Whether it still holds the socket."""
        return _target(f"/proc/{self.pid}/fd/{self.fd}") == f"socket:[{self.inode}]"


def address_of(peer: str) -> Address | None:
    """The address in gRPC's name of a peer, such as ``ipv4:127.0.0.1:5000``; None unless it is a TCP connection."""
    address = tcp_address(peer)
    return None if address is None else (_canonical(address[0].packed), address[1])


def process_at(address: Address) -> Process | None:
    """The process that has a connection's end at an address; None if it is not on this host, or hidden."""
    for local, _, state, uid, inode in _rows():
        if local == address and state == _ESTABLISHED and inode:
            return _holder(uid, inode)
    return None


def remote_ends() -> set[Address]:
    """The remote addresses of all established connections of this host."""
    return {remote for _, remote, state, _, _ in _rows() if state == _ESTABLISHED}


def started(pid: int) -> str:
    """When a process was started, in the kernel's ticks; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def _rows() -> Iterator[tuple[Address, Address, int, int, int]]:
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue  # a host without IPv6
        for line in lines:
            fields = line.split()
            yield (
                _address(fields[_LOCAL]),
                _address(fields[_REMOTE]),
                int(fields[_STATE], 16),
                int(fields[_UID]),
                int(fields[_INODE]),
            )


def _address(text: str) -> Address:
    """An address of the tables, which hold words of four bytes in the byte order of the host, little-endian."""
    ip, _, port = text.partition(":")
    words = [bytes.fromhex(ip[start : start + 8])[::-1] for start in range(0, len(ip), 8)]
    return _canonical(b"".join(words)), int(port, 16)


def _canonical(packed: bytes) -> str:
    mapped = ipaddress.IPv6Address(packed).ipv4_mapped if len(packed) == 16 else None
    return (mapped.packed if mapped else packed).hex()


def _holder(uid: int, inode: int) -> Process | None:
    """The process that holds a socket; the one with the lowest number if several share it."""
    wanted = f"socket:[{inode}]"
    for pid in sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()):
        try:
            descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue  # it has ended, or belongs to another user
        for descriptor in descriptors:
            if _target(descriptor) == wanted:
                return Process(pid, started(pid), uid, int(descriptor.name), inode)
    return None


def _target(link: str | Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - each request asks several times, and pathlib takes ten times as long
    except OSError:
        return ""
