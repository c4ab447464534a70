"""A link that can send any bytes and any descriptors."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from nnhal.link.client import PROTOCOL_VERSION
from nnhal.v1 import link_pb2 as wire
from tests.support.waiting import SECONDS


class RawLink:
    """A connection to a link socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(SECONDS)
        self._socket.connect(str(path))

    def send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        if descriptors:
            socket.send_fds(self._socket, [message], list(descriptors))
        else:
            self._socket.send(message)

    def receive(self) -> wire.LinkReply | None:
        """Return the next reply, or None at the end of the link. Descriptors that come with it are dropped."""
        try:
            message = self._socket.recv(1 << 16)
        except ConnectionResetError:  # the kernel reports this once, before the datagrams that are still queued
            message = self._socket.recv(1 << 16)
        return wire.LinkReply.FromString(message) if message else None

    def ask(self, request: wire.LinkRequest, descriptors: Sequence[int] = ()) -> wire.LinkReply:
        self.send(request.SerializeToString(), descriptors)
        reply = self.receive()
        assert reply is not None, "the link has ended"
        return reply

    def hello(self, version: int = PROTOCOL_VERSION) -> wire.LinkReply:
        return self.ask(wire.LinkRequest(hello=wire.Hello(protocol_version=version, client_name="raw")))

    def flood(self, message: bytes) -> None:
        """Send a datagram repeatedly, without reading, until the link ends."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while True:
                self._socket.send(message)

    def wait_for_end(self) -> wire.LinkReply | None:
        """Read until the link ends, and return the last reply."""
        last = None
        while (reply := self.receive()) is not None:
            last = reply
        return last

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> RawLink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
