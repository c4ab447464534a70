"""Ports that several processes listen at together."""

from __future__ import annotations

from types import TracebackType

from nnhal_hosting.access import TcpListener


class SharedPort:
    """An address for listeners with SO_REUSEPORT, kept from other servers. Use as a context, or call ``close``.

    The socket that keeps it is bound and does not listen, so that the kernel hands it no connection.
    """

    def __init__(self, listener: TcpListener) -> None:
        """Raises OSError if the address cannot be listened at, also if another server shares it."""
        with listener.bind() as probe:
            port = probe.getsockname()[1]
        self._socket = TcpListener(listener.host, port).bind(reuse_port=True)
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
