"""End of a channel whose client breaks its protocol: an answer says why, and then it ends."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import pytest

from nnhal.link import Channel, ChannelClosedError

BROKEN = [
    pytest.param(b"\xff" * 64, "64 bytes that are no", id="garbage"),
    pytest.param(b"\xf8\x07\x01", "without a call", id="a call of an unknown kind"),
    pytest.param(bytes((1 << 16) + 1), "more than 65536 bytes", id="too many bytes"),
    pytest.param(b"", "0 bytes, expected 1 to 65536", id="an empty datagram"),
]
"""Datagrams that end any channel of calls, and what the last answer says."""


def last_words(channel: Channel, message: bytes, descriptors: Sequence[int] = ()) -> bytes:
    """Send a datagram as it is, return what answers it, and check that the channel ends then."""
    with socket.socket(fileno=os.dup(channel.fileno())) as connection:
        if descriptors:
            socket.send_fds(connection, [message], list(descriptors))
        else:
            connection.send(message)
    answer = channel.receive()
    with pytest.raises(ChannelClosedError, match="the other side has closed"):
        channel.receive()
    return answer
