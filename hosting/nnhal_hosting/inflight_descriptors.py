"""Descriptors in flight: those that wait in the sockets of this process to be received.

What reads a socket takes them within moments, or drops them. If nobody reads the socket, they stay open for as long as
the socket is, and one may be a client's end of a link.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from nnhal.descriptor import Descriptor

_MOST_BYTES = 1 << 16


def has_inflight(descriptor: Descriptor) -> bool:
    """Return whether descriptors wait in a socket. Linux tells it from 5.7 on; before, it is taken for no.

    Raises OSError if it cannot be seen, as without a free descriptor.
    """
    lines = Path(f"/proc/self/fdinfo/{descriptor.fileno()}").read_text().splitlines()
    return any(int(count) for name, _, count in (line.partition(":") for line in lines) if name == "scm_fds")


class InflightWatch:
    """Finds descriptors that nobody takes, and drops them. To be used in one thread."""

    def __init__(self) -> None:
        self._seen: frozenset[int] = frozenset()

    def drop_stuck(self) -> None:
        """Drop those of sockets that had some at the last call too, with the messages that they came with."""
        seen = set()
        for name in _own_descriptors():
            try:
                descriptor = Descriptor(os.dup(int(name)))
            except OSError:  # it is closed by now, or no descriptor is left
                continue
            inode = os.fstat(descriptor.fileno()).st_ino
            try:
                if not has_inflight(descriptor):
                    continue
            except OSError:  # it is looked at the next time
                continue
            seen.add(inode)
            if inode in self._seen:
                _drop_inflight(descriptor)
        self._seen = frozenset(seen)


def _own_descriptors() -> list[str]:
    try:
        return [entry.name for entry in Path("/proc/self/fd").iterdir()]
    except OSError:
        return []


def _drop_inflight(descriptor: Descriptor) -> None:
    """Receive messages, without their descriptors, until no more has any."""
    with socket.socket(fileno=os.dup(descriptor.fileno())) as opened:
        try:
            while has_inflight(descriptor) and opened.recv(_MOST_BYTES, socket.MSG_DONTWAIT):
                pass
        except OSError:  # somebody else has received them
            return
