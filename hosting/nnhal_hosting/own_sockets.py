"""The sockets that this process has open, including those of libraries that do not give them out."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nnhal_hosting.access import tcp_address

_DESCRIPTORS = Path("/proc/self/fd")


def count_descriptors() -> int:
    return sum(1 for _ in _DESCRIPTORS.iterdir())


def own_sockets() -> Iterator[socket.socket]:
    """This process's sockets by the numbers of their descriptors, each as long as it is looked at."""
    for number in sorted(int(entry.name) for entry in _DESCRIPTORS.iterdir()):
        with suppress(OSError):  # closed meanwhile; what has its number now is looked at instead
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as end:  # its dup() would have gRPC's accept block
                    yield end


def end_connection(peer: str) -> None:
    """End the TCP connection to a client, by its address as gRPC writes it. Does nothing for others."""
    client = tcp_address(peer)
    if client is None:
        return
    # A server of IPv6 sees clients of IPv4 too, whose addresses gRPC writes as they are.
    names = {(str(host), client[1]) for host in (client[0], f"::ffff:{client[0]}")}
    for end in own_sockets():
        with suppress(OSError):  # it is not connected
            if end.family in (socket.AF_INET, socket.AF_INET6) and end.getpeername()[:2] in names:
                end.shutdown(socket.SHUT_RDWR)
