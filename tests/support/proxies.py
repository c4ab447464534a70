"""A proxy in front of a stream socket that counts the bytes which go through it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CHUNK_BYTES = 1 << 16


class CountingProxy:
    """Forwards connections to ``path`` to ``target``; ``bytes`` counts both directions."""

    def __init__(self, path: Path, target: Path) -> None:
        self.bytes = 0
        self._target = str(target)
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            far.connect(self._target)
            self._ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._relay, args=(source, sink))
                self._threads.append(thread)
                thread.start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                with self._lock:
                    self.bytes += len(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def counting_proxy(path: Path, target: Path) -> Iterator[CountingProxy]:
    """Run a proxy until the context ends."""
    proxy = CountingProxy(path, target)
    try:
        yield proxy
    finally:
        proxy.close()
