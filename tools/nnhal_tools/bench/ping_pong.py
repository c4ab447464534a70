"""A datagram to another Python process and back: the floor of a hop.

``python -m nnhal_tools.bench.ping_pong FD`` is the other process: it echoes datagrams until the socket closes.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MESSAGE_BYTES = 64


@contextmanager
def ping_pong() -> Iterator[Callable[[], object]]:
    """A function that sends a datagram to a process and receives its echo. The process ends with the context."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )
        message = bytes(_MESSAGE_BYTES)

        def ping() -> bytes:
            ours.send(message)
            return ours.recv(_MESSAGE_BYTES)

        yield ping
    process.wait()


def _echo() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        while message := connection.recv(_MESSAGE_BYTES):
            connection.send(message)


if __name__ == "__main__":
    _echo()
