"""The numbers of calls on channels, which their answers carry (see Numbered in link.proto)."""

from __future__ import annotations

import struct

from google.protobuf.message import DecodeError

from nnhal.v1 import link_pb2 as wire

NUMBERED_ANSWERS = wire.LINK_CAPABILITY_NUMBERED_ANSWERS
LENGTHS_BY_RUN = wire.LINK_CAPABILITY_LENGTHS_BY_RUN
CALLS = wire.LINK_CAPABILITY_CALLS
_FIELD = struct.Struct("<BQ")
NUMBER_BYTES = _FIELD.size
NUMBER_TAG = 15 << 3 | 1
"""The tag of field 15, of type fixed64."""
pack_number = _FIELD.pack
"""As ``number_field``, given NUMBER_TAG and a number: for those to whom a call more matters."""


def number_field(number: int) -> bytes:
    """The bytes that number a call or an answer when they are added to it."""
    return pack_number(NUMBER_TAG, number)


def number_in(field: bytes) -> int:
    number: int = _FIELD.unpack(field)[1]
    return number


def number_of(message: bytes) -> int | None:
    """The number of a call or an answer; None if it has none, or is no message at all."""
    try:
        numbered = wire.Numbered.FromString(message)
    except DecodeError:
        return None
    return numbered.number if numbered.HasField("number") else None


class CallNumbers:
    """Takes the numbers off the calls of one channel. What is left of equal calls is equal, and they are read once."""

    def __init__(self) -> None:
        self._plain = b""
        self._body: bytes | None = None

    def split(self, call: bytes) -> tuple[bytes, bytes]:
        """Return a call without its number, and what is to be added to the answer; nothing if it has no number."""
        body = call[:-NUMBER_BYTES]
        if body == self._body and call[-NUMBER_BYTES] == NUMBER_TAG:
            return self._body, call[-NUMBER_BYTES:]
        if call == self._plain:
            return call, b""
        number = number_of(call)
        if number is None:
            self._plain = call
            return call, b""
        field = number_field(number)
        if call.endswith(field) and _is_message(body):
            self._body = body
            return body, field
        return call, field


def _is_message(body: bytes) -> bool:
    """Return whether bytes are a whole message, so that what follows them is a field of its own."""
    try:
        wire.Numbered.FromString(body)
    except DecodeError:
        return False
    return True
