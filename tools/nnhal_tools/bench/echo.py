"""``python -m nnhal_tools.bench.echo FD``: echoes datagrams until the socket closes. The floor of a hop."""

from __future__ import annotations

import socket
import sys

MESSAGE_BYTES = 64


def main() -> None:
    """Echo datagrams on an inherited socket."""
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        while message := connection.recv(MESSAGE_BYTES):
            connection.send(message)


if __name__ == "__main__":
    main()
