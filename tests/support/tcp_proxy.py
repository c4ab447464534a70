"""A TCP proxy that counts what passes."""

from __future__ import annotations

import contextlib
import socket
import threading

from nnhal.contexts import Closing

_PIECE = 1 << 16


class TcpProxy(Closing):
    """Listens at ``address``, and passes everything on to another address. ``sent`` is what clients have sent."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                self.sent += len(piece) if counts else 0
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
