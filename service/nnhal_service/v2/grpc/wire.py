"""Inference requests and responses as the bytes that gRPC carries.

protobuf copies a field of bytes twice on its way in (into the message, then out of it) and twice on its way out. Such
fields make up nearly all of a large request, so they are cut out of it here. What is left of a small one, its head, is
the same in all requests of a client but for the identifier: without that it need be parsed but once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nnhal.inference.grpc_service_pb2 import ModelInferRequest, ModelInferResponse

Raw = bytes | memoryview
"""The bytes of a tensor."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_RAW_INPUT_TAG = ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER << 3 | _LENGTH
_REQUEST_ID_TAG = ModelInferRequest.ID_FIELD_NUMBER << 3 | _LENGTH
_RESPONSE_ID_TAG = bytes([ModelInferResponse.ID_FIELD_NUMBER << 3 | _LENGTH])
_RAW_OUTPUT_TAG = bytes([ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER << 3 | _LENGTH])
_STREAM_RESPONSE_TAG = bytes([2 << 3 | _LENGTH])


class CutRequest(NamedTuple):
    """A request in its parts. ``head`` is a ModelInferRequest without the others; ``raw`` are views of the whole."""

    head: bytes
    id: str
    raw: list[memoryview]


def cut_request(data: bytes) -> CutRequest:
    """Raises google.protobuf.message.DecodeError; whether the head is a message is not looked at."""
    view = memoryview(data)
    head, raw = [], []
    identifier = b""
    for tag, start, body, end in _fields(data):
        if tag == _RAW_INPUT_TAG:
            raw.append(view[body:end])
        elif tag == _REQUEST_ID_TAG:
            identifier = data[body:end]
        else:
            head.append(data[start:end])
    try:
        return CutRequest(b"".join(head), identifier.decode(), raw)
    except UnicodeDecodeError as error:
        raise DecodeError("the id is not UTF-8") from error


def encode_response(head: bytes, request_id: str, raw: Sequence[Raw]) -> bytes:
    """A ModelInferResponse; ``head`` is one without ``id`` and ``raw_output_contents``."""
    return b"".join(_response_parts(head, request_id, raw))


def encode_stream_response(head: bytes, request_id: str, raw: Sequence[Raw]) -> bytes:
    """A ModelStreamInferResponse that holds such a response."""
    parts = _response_parts(head, request_id, raw)
    return b"".join((_STREAM_RESPONSE_TAG, _varint(sum(map(len, parts))), *parts))


def _response_parts(head: bytes, request_id: str, raw: Sequence[Raw]) -> list[Raw]:
    parts: list[Raw] = [head]
    if request_id:
        identifier = request_id.encode()
        parts += (_RESPONSE_ID_TAG, _varint(len(identifier)), identifier)
    for contents in raw:
        parts += (_RAW_OUTPUT_TAG, _varint(len(contents)), contents)
    return parts


def _fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: tag, where it starts, where its contents start, and where it ends."""
    position, size = 0, len(data)
    while position < size:
        start = position
        tag, position = data[position], position + 1
        if tag > 0x7F:
            tag, position = _read_varint(data, start)
        body = position
        kind = tag & 7
        if kind == _LENGTH:
            length, body = _read_varint(data, position)
            position = body + length
        elif kind == _VARINT:
            _, position = _read_varint(data, position)
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        else:
            raise DecodeError(f"a field of wire type {kind} at byte {start}")
        if position > size:
            raise DecodeError(f"a field at byte {start} ends at byte {position} of {size}")
        yield tag, start, body, position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    if position < len(data) and data[position] < 0x80:  # as most are
        return data[position], position + 1
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise DecodeError(f"a number at byte {position} of {len(data)} is cut off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError(f"a number at byte {position} has more than ten bytes")


def _varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
