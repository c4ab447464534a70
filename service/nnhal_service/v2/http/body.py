"""Bodies of requests and responses: their limit and compression."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping

from starlette.types import Receive, Scope

from nnhal_service.access import Charge
from nnhal_service.serving.errors import ErrorKind, ServingError, TooLargeError
from nnhal_service.serving.loop import ServingLoop

_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_LEVEL = 1
"""Fast rather than small: both ends are near."""
_PIECE = 1 << 20
"""The most bytes that are decompressed before they are charged."""
_SLICE = 1 << 16
"""The bytes of a body that zlib is given at once, and copies if a member ends in them."""
_MOST_MEMBERS = 4096
"""Members of a gzip body. Each costs a copy of a slice."""
_NOT_ACCEPTED = re.compile(r"q\s*=\s*0(\.0*)?")
"""The weight of an encoding that a client does not accept (RFC 9110, 12.4.2)."""


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request by their names in lower case; the first one of a name."""
    return dict(reversed(scope["headers"]))


async def read_body(
    receive: Receive, headers: Mapping[bytes, bytes], max_bytes: int, charge: Charge, loop: ServingLoop
) -> bytes | bytearray:
    """The body, decompressed. The charge grows with it.

    Raises INVALID_ARGUMENT if it is too long or is not in its encoding, CANCELLED if the client leaves before its end,
    and RESOURCE_EXHAUSTED if all requests together hold too much.
    """
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced) > max_bytes:
        raise _too_long(max_bytes)
    body: bytes | bytearray = b""
    goes_on = True
    while goes_on:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ServingError(ErrorKind.CANCELLED, "the client has left before the end of its body")
        chunk, goes_on = message.get("body", b""), message.get("more_body", False)
        if len(body) + len(chunk) > max_bytes:
            raise _too_long(max_bytes)
        charge.grow(len(chunk))
        if not body:  # mostly it is the only one
            body = chunk
            continue
        if not isinstance(body, bytearray):
            body = bytearray(body)
        body += chunk
    encoding = headers.get(b"content-encoding", b"").decode("latin-1")
    return await loop.compute(decompress, body, encoding, max_bytes, charge) if encoding else body


def decompress(body: bytes | bytearray, encoding: str, max_bytes: int, charge: Charge) -> bytes | bytearray:
    """A body without its encoding.

    Raises INVALID_ARGUMENT if the encoding is unknown, or the body is not in it or is too long, and RESOURCE_EXHAUSTED
    if all requests together hold too much.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOW_BITS:
        raise _refuse(f"Content-Encoding {encoding!r}, expected one of identity, {', '.join(_WINDOW_BITS)}")
    content = bytearray()
    try:
        for piece in _decompressed(body, encoding):
            if len(content) + len(piece) > max_bytes:
                raise _too_long(max_bytes)
            charge.grow(len(piece))
            content += piece
    except zlib.error as error:
        raise _refuse(f"the body is not {encoding}: {error}") from error
    return content


def compressed(content: bytes, accepted: str) -> tuple[bytes, str]:
    """Content in the first known encoding of an Accept-Encoding header, and that encoding's name."""
    for entry in accepted.split(","):
        name, _, weight = (part.strip().lower() for part in entry.partition(";"))
        if _NOT_ACCEPTED.fullmatch(weight):
            continue
        if name == "gzip":
            return gzip.compress(content, _LEVEL, mtime=0), name
        if name == "deflate":
            return zlib.compress(content, _LEVEL), name
        if name == "identity":
            break
    return content, ""


def _decompressed(body: bytes | bytearray, encoding: str) -> Iterator[bytes]:
    """The content in pieces. A gzip body may have several members (RFC 1952, 2.2).

    Raises zlib.error, and INVALID_ARGUMENT if the body ends too early or too late, or has too many members.
    """
    decompressor, members = zlib.decompressobj(_WINDOW_BITS[encoding]), 1
    view = memoryview(body)
    for start in range(0, len(body), _SLICE):
        rest: bytes | memoryview = view[start : start + _SLICE]
        goes_on = True
        while goes_on:
            if decompressor.eof:
                if encoding != "gzip":
                    raise _refuse(f"the body goes on after its {encoding} ends")
                if members == _MOST_MEMBERS:
                    raise _refuse(f"the body has more than {_MOST_MEMBERS} members of gzip")
                decompressor, members = zlib.decompressobj(_WINDOW_BITS[encoding]), members + 1
            piece = decompressor.decompress(rest, _PIECE)
            yield piece
            rest = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
            goes_on = bool(rest) or (len(piece) == _PIECE and not decompressor.eof)
    if not decompressor.eof:
        raise _refuse(f"the body ends before its {encoding} does")


def _refuse(message: str) -> ServingError:
    return ServingError(ErrorKind.INVALID_ARGUMENT, message)


def _too_long(max_bytes: int) -> ServingError:
    message = f"the body is longer than {max_bytes} bytes, which --http-max-input-size allows"
    return TooLargeError(ErrorKind.INVALID_ARGUMENT, message)
