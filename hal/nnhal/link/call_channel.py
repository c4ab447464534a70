"""The caller's end of a channel: each call is answered before the next one is sent."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence

from nnhal.descriptor import Descriptor
from nnhal.link.channel import Channel, ChannelClosedError, ProtocolError
from nnhal.link.numbers import NUMBER_BYTES, NUMBER_TAG, number_of, pack_number


class CallChannel(Channel):
    """A channel on which no answer is taken for that of another call. One call at a time.

    If an answer has another number than its call, the channel ends: both directions are shut down, and ProtocolError
    says why. Without numbers it ends if there is anything to be read before a call is sent. Sending and receiving are
    written out here, for the sake of their time.
    """

    def __init__(self, connection: socket.socket, is_numbered: bool = False) -> None:
        """``is_numbered`` says that answers carry the numbers of their calls, as the session has agreed."""
        super().__init__(connection)
        self._is_numbered = is_numbered
        self._number = 0
        self._field = b""
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def send(self, message: bytes, descriptors: Sequence[Descriptor] = ()) -> None:
        """Send one call. Raises ChannelClosedError, or ProtocolError also if an answer without a number came before."""
        if self._is_numbered:
            self._number = number = self._number + 1
            self._field = field = pack_number(NUMBER_TAG, number)
            message += field
        else:
            self.require_silence()
        if descriptors or not 0 < len(message) <= self._max_bytes:
            super().send(message, descriptors)
            return
        try:
            self.traffic.sent += self._socket.send(message)
        except OSError as error:
            raise ChannelClosedError(f"the channel is closed: {error.strerror or error}") from error

    def receive(self) -> bytes:
        """Receive the answer. Raises ChannelClosedError, or ProtocolError also if it is that of another call."""
        try:
            answer = self._socket.recv(self._room)
        except OSError as error:
            raise ChannelClosedError(f"the channel is closed: {error.strerror or error}") from error
        if self._is_numbered and answer.endswith(self._field) and len(answer) <= self._max_bytes:
            self.traffic.received += len(answer)
            return answer[:-NUMBER_BYTES]
        return self._own(self._checked(answer))

    def receive_with_descriptors(self) -> tuple[bytes, list[Descriptor]]:
        """Receive the answer and its descriptors. Raises as ``receive``."""
        message, descriptors = super().receive_with_descriptors()
        return self._own(message), descriptors

    def require_silence(self) -> None:
        """Raise ProtocolError, and end the channel, if there is an answer that no call is waiting for."""
        try:
            if not self._poll.poll(0):
                return
            unasked = len(self._socket.recv(self._room, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except RuntimeError:  # another thread looks at this moment
            return
        except OSError as error:
            raise ChannelClosedError(f"the channel is closed: {error.strerror or error}") from error
        if not unasked:
            raise ChannelClosedError("the other side has closed the channel")
        self._end()
        raise ProtocolError(f"the other side has sent {unasked} bytes that no call has asked for")

    def _own(self, answer: bytes) -> bytes:
        """Return an answer without its number, if that is last. Raises ProtocolError if it is that of another call."""
        if not self._is_numbered:
            return answer
        if answer.endswith(self._field):
            return answer[:-NUMBER_BYTES]
        number = number_of(answer)
        if number == self._number:
            return answer
        self._end()
        said = "no number" if number is None else f"number {number}"
        raise ProtocolError(f"the other side has answered call {self._number} with {said}")

    def _end(self) -> None:
        """End the channel; nothing that was sent before can be read afterwards."""
        self.shutdown()
        self._discard()


def call_channel_from(descriptor: Descriptor, is_numbered: bool = False) -> CallChannel:
    return CallChannel(socket.socket(fileno=descriptor.detach()), is_numbered)
