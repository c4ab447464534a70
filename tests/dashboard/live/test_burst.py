"""Many streams that are opened at once, over real connections."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from nnhal_dashboard.live.streams import MOST_STREAMS
from nnhal_dashboard.server import DashboardServer
from nnhal_dashboard.settings import DashboardSettings

TOO_MANY = 44


@pytest.mark.slow
def test_a_burst_of_streams_does_not_pass_their_limit(short_path: Path) -> None:
    with ExitStack() as opened:
        server = opened.enter_context(DashboardServer(DashboardSettings(directory=short_path, port=0)))
        port = int(server.address.rpartition(":")[2])
        request = f"GET /live?f=overview.figures HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode()
        addresses = [("127.0.0.1", port)] * (MOST_STREAMS + TOO_MANY)
        connections = [opened.enter_context(socket.create_connection(address, timeout=30)) for address in addresses]
        for connection in connections:
            connection.sendall(request)
        statuses = Counter(connection.recv(1 << 16).split(b" ", 2)[1] for connection in connections)
        assert statuses == {b"200": MOST_STREAMS, b"503": TOO_MANY}
