"""A datagram to another Python process and back: the floor of a hop."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nnhal_tools.bench.echo import MESSAGE_BYTES


@contextmanager
def ping_pong() -> Iterator[Callable[[], object]]:
    """A function that sends a datagram to a process and receives its echo. The process ends with the context."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "nnhal_tools.bench.echo", str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )
        message = bytes(MESSAGE_BYTES)

        def ping() -> bytes:
            ours.send(message)
            return ours.recv(MESSAGE_BYTES)

        yield ping
    process.wait()
