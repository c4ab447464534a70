"""Ports that several processes listen at together."""

from __future__ import annotations

import socket
from types import TracebackType

from nnhal_hosting.access import TcpListener


class SharedPort:
    """An address for listeners with SO_REUSEPORT, kept from other servers. Use as a context, or call ``close``.

    The socket that keeps it is bound and does not listen, so that the kernel hands it no connection.
    """

    def __init__(self, listener: TcpListener) -> None:
        """Raises OSError if the address cannot be listened at, also if another server shares it."""
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier server may linger
            probe.bind((listener.host, listener.port))
            port = probe.getsockname()[1]
        self._socket = socket.socket(family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._socket.bind((listener.host, port))
        except OSError:
            self._socket.close()
            raise
        self.listener = TcpListener(listener.host, port)
        """The given listener, with the chosen port."""

    def close(self) -> None:
        """Keep it no longer. Harmless when repeated."""
        self._socket.close()

    def __enter__(self) -> SharedPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
