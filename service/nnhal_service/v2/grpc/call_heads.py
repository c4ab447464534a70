"""Heads of calls of gRPC over HTTP/2, as its protocol has them: the path, the deadline, the encoding, the metadata."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Sequence
from urllib.parse import quote

from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.grpc.calls import CallHead, Metadata
from nnhal_service.v2.grpc.statuses import STATUS

_UNIT_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
TIMEOUT = b"grpc-timeout"
_CONTENT_TYPE = re.compile(rb"application/grpc(?:$|[+;])")
_NO_METADATA = frozenset((b"te", b"content-type", TIMEOUT, b"grpc-encoding", b"grpc-accept-encoding"))
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_SHOWN = 80
"""Bytes of a value in a message."""

CONTENT_TYPE = (b"content-type", b"application/grpc")
BEGUN = ((b":status", b"200"), CONTENT_TYPE)
"""The head of an answer that has messages."""
OK = ((b"grpc-status", b"0"),)
ENCODINGS = (b"grpc-accept-encoding", b"identity, gzip, deflate")
Headers = Sequence[tuple[bytes, bytes]]


class NotGrpcError(Exception):
    """A request that is none of gRPC's, with the status of HTTP that it is answered with."""

    def __init__(self, status: bytes) -> None:
        super().__init__(status)
        self.status = status


def head_of_call(headers: Headers) -> CallHead:
    """Read a head. Raises NotGrpcError, and ServingError if what is gRPC's in it is malformed."""
    given = dict(headers)
    if given.get(b":method") != b"POST":
        raise NotGrpcError(b"405")
    if not _CONTENT_TYPE.match(given.get(b"content-type", b"")):
        raise NotGrpcError(b"415")
    if given.get(b"te") != b"trailers":
        message = "the call has no header 'te: trailers', which a proxy may have taken away"
        raise ServingError(ErrorKind.INTERNAL, message)
    return CallHead.of(
        given.get(b":path", b""),
        timeout_of(given.get(TIMEOUT)),
        given.get(b"grpc-encoding", b"identity"),
        tuple([_metadata(*header) for header in headers if header[0][:1] != b":" and header[0] not in _NO_METADATA]),
    )


def status_of(error: ServingError) -> tuple[tuple[bytes, bytes], ...]:
    """Return the trailers of a call that has failed."""
    message = quote(error.message, safe=_PRINTABLE, errors="replace").encode()
    return ((b"grpc-status", b"%d" % STATUS[error.kind].value[0]), (b"grpc-message", message))


def trailers_of(metadata: Metadata) -> tuple[tuple[bytes, bytes], ...]:
    """Return metadata of text as trailers."""
    return tuple([(name.encode(), value.encode() if isinstance(value, str) else value) for name, value in metadata])


def timeout_of(value: bytes | None) -> float | None:
    """Return the seconds that a header gives a call; None without one. Raises INVALID_ARGUMENT if it is malformed."""
    if value is None:
        return None
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        message = f"grpc-timeout is {_shown(value)}, expected up to 8 digits and one of H, M, S, m, u and n"
        raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
    return int(found[1]) * _UNIT_SECONDS[found[2]]


def _metadata(name: bytes, value: bytes) -> tuple[str, str | bytes]:
    if not name.endswith(b"-bin"):
        return name.decode(errors="replace"), value.decode(errors="replace")
    try:
        return name.decode(errors="replace"), b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        message = f"metadata {_shown(name)} is {_shown(value)}, expected base64"
        raise ServingError(ErrorKind.INVALID_ARGUMENT, message) from None


def _shown(value: bytes) -> str:
    return repr(value[:_SHOWN].decode("latin-1"))
