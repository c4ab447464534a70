"""Ports of processes that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port for a process that is started more than once: the same each time."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port: int = reserved.getsockname()[1]
        return port
