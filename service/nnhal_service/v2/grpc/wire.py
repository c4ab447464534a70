"""Inference requests and responses as the bytes that gRPC carries, without needless copies of tensors.

protobuf copies a field of bytes twice on its way in (into the message, then out of it) and twice on its way out. Such
fields make up nearly all of a large request, so they are cut out of it here and the rest is left to protobuf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import DecodeError

from nnhal.inference.grpc_service_pb2 import ModelInferRequest, ModelInferResponse

Raw = bytes | memoryview
"""The bytes of a tensor."""

_SMALL = 16384
"""Requests up to this size are left to protobuf whole: copying is then cheaper than looking for what to cut out."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_RAW_INPUT_TAG = ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER << 3 | _LENGTH
_RAW_OUTPUT_TAG = bytes([ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER << 3 | _LENGTH])
_STREAM_RESPONSE_TAG = bytes([2 << 3 | _LENGTH])


def decode_request(data: bytes) -> tuple[ModelInferRequest, Sequence[Raw]]:
    """A request and its ``raw_input_contents``, which may be views of ``data`` and are then not in the message.

    Raises google.protobuf.message.DecodeError.
    """
    if len(data) <= _SMALL:
        message = ModelInferRequest.FromString(data)
        return message, list(message.raw_input_contents)
    view = memoryview(data)
    rest, raw = [], []
    for tag, start, body, end in _fields(data):
        if tag == _RAW_INPUT_TAG:
            raw.append(view[body:end])
        else:
            rest.append(view[start:end])
    return ModelInferRequest.FromString(b"".join(rest)), raw


def encode_response(message: ModelInferResponse, raw: Iterable[Raw]) -> bytes:
    """A response with ``raw_output_contents``; the message must have none of its own."""
    return b"".join(_response_parts(message, raw))


def encode_stream_response(message: ModelInferResponse, raw: Iterable[Raw]) -> bytes:
    """A ModelStreamInferResponse that holds a response with ``raw_output_contents``."""
    parts = _response_parts(message, raw)
    return b"".join((_STREAM_RESPONSE_TAG, _varint(sum(map(len, parts))), *parts))


def _response_parts(message: ModelInferResponse, raw: Iterable[Raw]) -> list[Raw]:
    parts: list[Raw] = [message.SerializeToString()]
    for contents in raw:
        parts += (_RAW_OUTPUT_TAG, _varint(len(contents)), contents)
    return parts


def _fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: tag, where it starts, where its contents start, and where it ends."""
    position, size = 0, len(data)
    while position < size:
        start = position
        tag, position = _read_varint(data, position)
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
