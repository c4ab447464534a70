"""Bodies of requests and responses: their limit, and their compression."""

from __future__ import annotations

import gzip
import zlib

from starlette.requests import ClientDisconnect, Request

from nnhal_service.serving.errors import ErrorKind, ServingError

_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_LEVEL = 1
"""Speed before size: both ends are near."""


async def read_body(request: Request, max_bytes: int) -> bytes | bytearray:
    """The body, decompressed.

    Raises INVALID_ARGUMENT where it is too long or is not what it is said to be, CANCELLED where it does not end.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise _too_long(max_bytes)
    chunks = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_bytes:
                raise _too_long(max_bytes)
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise ServingError(ErrorKind.CANCELLED, "the client has left before the end of its body") from error
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    return decompress(body, request.headers.get("content-encoding", ""), max_bytes)


def decompress(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Raises INVALID_ARGUMENT for an encoding that is not known, content that is not so encoded, or too much of it."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOW_BITS:
        raise _refuse(f"Content-Encoding {encoding!r}, expected one of identity, {', '.join(_WINDOW_BITS)}")
    decompressor = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        content = decompressor.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise _refuse(f"the body is not {encoding}: {error}") from error
    if len(content) > max_bytes:
        raise _too_long(max_bytes)
    if not decompressor.eof:
        raise _refuse(f"the body ends before its {encoding} does")
    return content


def compressed(content: bytes, accepted: str) -> tuple[bytes, str]:
    """Content in the first encoding of an Accept-Encoding header that is known, and that encoding's name."""
    for entry in accepted.split(","):
        name, _, weight = (part.strip().lower() for part in entry.partition(";"))
        if weight.replace(" ", "") in ("q=0", "q=0.0"):
            continue
        if name == "gzip":
            return gzip.compress(content, _LEVEL, mtime=0), name
        if name == "deflate":
            return zlib.compress(content, _LEVEL), name
        if name == "identity":
            break
    return content, ""


def _refuse(message: str) -> ServingError:
    return ServingError(ErrorKind.INVALID_ARGUMENT, message)


def _too_long(max_bytes: int) -> ServingError:
    return _refuse(f"the body is longer than {max_bytes} bytes, which --http-max-input-size allows")
