"""A client of HTTP/2 that sends what no client of gRPC sends, and reads answers frame by frame."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

import ngh2

from tests.support.raw_http2 import Header, headers_of
from tests.support.waiting import SECONDS

NO_MESSAGE = bytes(5)
"""A message without bytes, behind its prefix."""


@dataclass
class Answered:
    """An answer, as far as it has come."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    data: bytes = b""
    reset: int | None = None
    is_whole: bool = False

    @property
    def status(self) -> int:
        """gRPC's."""
        return int(self.headers[b"grpc-status"])

    @property
    def message(self) -> str:
        return unquote(self.headers[b"grpc-message"].decode())


class Http2Client:
    """A connection. ngh2 reads what comes; what is sent may be bytes that it would not send."""

    def __init__(self, connection: socket.socket, window: int | None = None) -> None:
        """``window`` is how many bytes of each answer the client takes, None for 16 MiB."""
        self.socket = connection
        self.goaway: ngh2.GoAwayReceived | None = None
        self._http2 = ngh2.Connection(ngh2.Role.CLIENT)
        self._answers: dict[int, Answered] = {}
        self._http2.initiate_connection({4: 16 << 20 if window is None else window})
        self._http2.set_local_window_size(1 << 30)
        self.flush()

    def flush(self) -> None:
        while sent := self._http2.data_to_send():
            self.socket.sendall(sent)

    def request(self, path: bytes, *changed: Header, data: bytes | None = NO_MESSAGE, is_whole: bool = True) -> int:
        """Send a call of gRPC with changed headers, and return the number of its stream."""
        headers = [header for header in headers_of(path, changed) if header[1]]
        stream = self._http2.send_request(headers, end_stream=data is None and is_whole)
        self._answers[stream] = Answered()
        if data is not None:
            self._http2.send_data(stream, data, end_stream=is_whole)
        self.flush()
        return stream

    def send(self, stream: int, data: bytes, is_whole: bool = False) -> None:
        self._http2.send_data(stream, data, end_stream=is_whole)
        self.flush()

    def reset(self, stream: int) -> None:
        self._http2.reset_stream(stream)
        self.flush()

    def answer(self, stream: int) -> Answered:
        """Return an answer once it is whole or has been reset. Raises ConnectionError if the connection ends before."""
        answered = self._answers[stream]
        while not answered.is_whole:
            if not self.receive():
                raise ConnectionError("the server has closed the connection")
        return answered

    def receive(self) -> bool:
        """Take what has come, or wait for something; False if the server has closed the connection."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            return False
        self._http2.receive_data(data)
        for event in self._http2.events():
            self._note(event)
        self.flush()
        return True

    def is_closed(self) -> bool:
        """Wait until the server has closed the connection."""
        while self.receive():
            pass
        return True

    def _note(self, event: ngh2.Event) -> None:
        if isinstance(event, ngh2.GoAwayReceived):
            self.goaway = event
        answered = self._answers.get(getattr(event, "stream_id", 0))
        if answered is None:
            return
        if isinstance(event, ngh2.ResponseReceived | ngh2.TrailersReceived):
            answered.headers.update(dict(event.headers))
        elif isinstance(event, ngh2.DataReceived):
            answered.data += event.data
        elif isinstance(event, ngh2.StreamReset):
            answered.reset = event.error_code
        if isinstance(event, ngh2.StreamClosed | ngh2.TrailersReceived) or getattr(event, "end_stream", False):
            answered.is_whole = True


@contextmanager
def http2_client(address: str, window: int | None = None) -> Iterator[Http2Client]:
    """A connection to ``unix:PATH`` or ``HOST:PORT``."""
    path = address.removeprefix("unix:")
    if path == address:
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=SECONDS)
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        connection.connect(path)
    with closing(connection):
        yield Http2Client(connection, window)


def message(data: bytes, said: int | None = None, compressed: int = 0) -> bytes:
    """A message behind its prefix, which may say another length."""
    return struct.pack(">BI", compressed, len(data) if said is None else said) + data
