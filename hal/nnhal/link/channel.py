"""A connected SOCK_SEQPACKET socket: datagrams of bounded size with descriptors."""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import stat
import struct
import weakref
from collections import deque
from collections.abc import Sequence

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.user_numbers import known_user

MAX_MESSAGE_BYTES = 64 * 1024
"""Bytes of a datagram."""
MAX_DESCRIPTORS_PER_MESSAGE = 16
"""Descriptors with a datagram."""
_CREDENTIALS = struct.Struct("3i")
_DESCRIPTOR_BYTES = array.array("i").itemsize


class ChannelClosedError(NnhalError):
    """The other side has closed the channel or is gone."""


class NothingReceivedError(ChannelClosedError):
    """Nothing came for as long as receiving may take; to one who does not expect that, the channel is closed."""


class ProtocolError(NnhalError):
    """The other side has violated the protocol."""


class NoDescriptorError(ProtocolError):
    """A message has lost its descriptors: this process had no room for them."""

    def __init__(self, message: str, received: bytes = b"") -> None:
        super().__init__(message)
        self.received = received
        """The rest of it."""


class Traffic:
    """Bytes that went over the sockets of channels. Channels that share it add up."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.sent = self.received = 0

    @property
    def total(self) -> int:
        return self.sent + self.received


class Channel:
    """One end of a channel. One thread may send while another one receives."""

    def __init__(self, connection: socket.socket, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._socket = connection
        # No __del__: in a reference cycle the socket might be collected first, and warn that it was not closed.
        weakref.finalize(self, connection.close)
        self._max_bytes = max_bytes
        self._room = max_bytes + 1  # so that a datagram that is too long is noticed
        self._send_flags = 0
        self._unsent: deque[tuple[bytes, Sequence[Descriptor]]] = deque()
        self.traffic = Traffic()

    def fileno(self) -> int:
        """Return the socket's descriptor number, -1 once closed."""
        return self._socket.fileno()

    def send(self, message: bytes, descriptors: Sequence[Descriptor] = ()) -> None:
        """Send one datagram. Raises ChannelClosedError, or ProtocolError if it is too long or empty."""
        if not 0 < len(message) <= self._max_bytes:  # an empty datagram reads like the end of the channel
            raise ProtocolError(f"the message has {len(message)} bytes, expected 1 to {self._max_bytes}")
        if len(descriptors) > MAX_DESCRIPTORS_PER_MESSAGE:
            raise ProtocolError(
                f"the message has {len(descriptors)} descriptors, expected at most {MAX_DESCRIPTORS_PER_MESSAGE}"
            )
        if self._unsent:
            self._unsent.append((message, descriptors))
            return
        try:
            if descriptors:
                self._send(message, descriptors)
            else:
                self.traffic.sent += self._socket.send(message, self._send_flags)
        except BlockingIOError as error:
            if not self._send_flags:  # a timeout of the socket's own
                raise ChannelClosedError(f"the channel is closed: {error.strerror}") from error
            self._unsent.append((message, descriptors))
        except OSError as error:
            raise ChannelClosedError(f"the channel is closed: {error.strerror or error}") from error

    def defer_sends(self) -> None:
        """From now on, keep what the socket has no room for: ``send`` does not block, and ``flush`` sends it."""
        self._send_flags = socket.MSG_DONTWAIT

    def wait_at_most(self, seconds: float) -> None:
        """From now on, have ``receive`` raise NothingReceivedError after so long. Sending is as before."""
        timeout = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)

    @property
    def has_unsent(self) -> bool:
        """Return whether there are messages that the socket had no room for."""
        return bool(self._unsent)

    def flush(self) -> None:
        """Send what the socket has room for by now. Raises ChannelClosedError."""
        try:
            while self._unsent:
                self._send(*self._unsent[0])
                self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError as error:
            raise ChannelClosedError(f"the channel is closed: {error.strerror or error}") from error

    def _send(self, message: bytes, descriptors: Sequence[Descriptor]) -> None:
        if descriptors:
            numbers = array.array("i", [descriptor.fileno() for descriptor in descriptors])
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers.tobytes())]
            self.traffic.sent += self._socket.sendmsg([message], ancillary, self._send_flags)
        else:
            self.traffic.sent += self._socket.send(message, self._send_flags)

    def send_at_once(self, message: bytes) -> None:
        """Like ``send``, but a receiver whose queue is full counts as gone: ChannelClosedError, without waiting."""
        try:
            self.traffic.sent += self._socket.send(message, socket.MSG_DONTWAIT)
        except OSError as error:
            raise ChannelClosedError(f"the channel is closed: {error.strerror or error}") from error

    def receive(self) -> bytes:
        """Receive one datagram, which must carry no descriptors. Raises ChannelClosedError or ProtocolError."""
        try:
            message = self._socket.recv(self._room)
        except BlockingIOError:
            raise NothingReceivedError("nothing came in time") from None
        except OSError as error:
            raise ChannelClosedError(f"the channel is closed: {error.strerror or error}") from error
        return self._checked(message)

    def receive_with_descriptors(self) -> tuple[bytes, list[Descriptor]]:
        """Receive one datagram and its descriptors. Raises ChannelClosedError or ProtocolError."""
        space = socket.CMSG_SPACE(MAX_DESCRIPTORS_PER_MESSAGE * _DESCRIPTOR_BYTES)
        try:
            message, ancillary, flags, _ = self._socket.recvmsg(self._room, space, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise ChannelClosedError(f"the channel is closed: {error.strerror or error}") from error
        descriptors = [
            Descriptor(number)
            for level, kind, data in ancillary
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            for number in array.array("i", data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
        ]
        if flags & socket.MSG_CTRUNC and len(descriptors) < MAX_DESCRIPTORS_PER_MESSAGE:
            raise NoDescriptorError("the process has no descriptor left for those that came with the message", message)
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError(f"the message has more than {MAX_DESCRIPTORS_PER_MESSAGE} descriptors")
        return self._checked(message), descriptors

    @property
    def hung_up(self) -> bool:
        """Return whether the other side has closed the channel or is gone."""
        return self._polled(select.POLLRDHUP, 0)

    def wait(self, seconds: float) -> bool:
        """Wait until there is something to receive, also that the channel is closed, for so many seconds at most."""
        return self._polled(select.POLLIN, seconds * 1000)

    def _polled(self, event: int, milliseconds: float) -> bool:
        poll = select.poll()
        try:
            poll.register(self._socket, event)
        except ValueError:  # this side has closed it, in another thread perhaps
            return True
        return bool(poll.poll(milliseconds))

    @property
    def peer_pid(self) -> int:
        """The id of the process that made the other end. Raises OSError once closed."""
        return peer_credentials(self._socket)[0]

    def set_timeout(self, seconds: float | None) -> None:
        """Bound how long sending and receiving may block. A call that takes longer raises ChannelClosedError."""
        self._socket.settimeout(seconds)

    def shutdown(self) -> None:
        """End both directions and wake threads that wait on either end. The descriptor stays open until ``close``."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def end_sending(self) -> None:
        """End this end's direction: the other side reads to the end of what was sent, and may still answer."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end. Further calls have no effect."""
        self.shutdown()
        self._discard()
        self._socket.close()

    def _discard(self) -> None:
        """Drop what was not read, which would reset the channel before the other side has read the last answer."""
        with contextlib.suppress(OSError):
            while self._socket.recv(1, socket.MSG_DONTWAIT):
                pass

    def _checked(self, message: bytes) -> bytes:
        if not message:
            if self.hung_up:
                raise ChannelClosedError("the other side has closed the channel")
            raise ProtocolError(f"the message has 0 bytes, expected 1 to {self._max_bytes}")
        if len(message) > self._max_bytes:
            raise ProtocolError(f"the message has more than {self._max_bytes} bytes")
        self.traffic.received += len(message)
        return message


def peer_credentials(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user that made the other end of a unix socket; UNKNOWN_USER if it has no number here,
    and 0 for a process that has none.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, known_user(uid)


def is_channel(descriptor: Descriptor) -> bool:
    """Return whether a descriptor that was handed over is a socket of the kind that channels are."""
    if not stat.S_ISSOCK(os.fstat(descriptor.fileno()).st_mode):
        return False
    with socket.socket(fileno=os.dup(descriptor.fileno())) as opened:
        return (opened.family, opened.type) == (socket.AF_UNIX, socket.SOCK_SEQPACKET)


def channel_pair() -> tuple[Channel, Descriptor]:
    """Create two connected ends: a channel to keep, and a descriptor to hand over."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours), Descriptor(theirs.detach())


def channel_from(descriptor: Descriptor) -> Channel:
    return Channel(socket.socket(fileno=descriptor.detach()))
