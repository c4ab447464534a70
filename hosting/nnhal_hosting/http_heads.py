"""Heads that programs may understand differently, which are refused.

A request often passes several programs, and what one takes for a request must be one for all: who asks, for which host,
and where the body ends. llhttp, the parser, refuses most heads that are ambiguous; these rules are about the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus

_VERSIONS = ("1.1", "1.0")
_SINGLE = frozenset(
    (b"authorization", b"content-type", b"cookie", b"host", b"inference-header-content-length", b"origin")
)
"""Headers of which a request has one at most, since readers differ in which of several they take."""
_NOT_IN_TRAILERS = _SINGLE | {b"content-encoding", b"content-range", b"expect", b"te", b"trailer", b"upgrade"}
"""Fields that say how a request is to be understood or who sends it, and so come before its body (RFC 9110, 6.5.1)."""
_HOST = re.compile(rb"(?:[\w.~!$&'()*+,;=%-]*|\[[\w.:~%-]+\])(?::\d*)?")
_ABSOLUTE = re.compile(rb"[a-z][a-z\d+.-]*://(?:[^/?#@]*@)?([^/?#]*)", re.IGNORECASE)
_SHOWN = 80
"""Bytes of a value in a message."""


class RefusedError(Exception):
    """A request that is refused as it is. The message says why."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


def require_plain(version: str, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Require that all programs understand a head in one way. The names of ``headers`` are in lower case.

    Raises RefusedError.
    """
    if version not in _VERSIONS:
        raise RefusedError(f"the request is of HTTP/{version}, expected HTTP/1.1 or HTTP/1.0")
    names = [name for name, _ in headers]
    values = dict(headers)
    if len(values) < len(names):
        for name in sorted(_SINGLE):
            if names.count(name) > 1:
                raise RefusedError(f"the request has {names.count(name)} {_title(name)} headers, expected one")
    host = values.get(b"host")
    if host is None and version == "1.1":
        raise RefusedError("the request has no Host header, expected one in each request of HTTP/1.1")
    if host is not None and not _HOST.fullmatch(host):
        raise RefusedError(f"the Host header is {_shown(host)}, expected a host and perhaps a port")
    if b"transfer-encoding" in values:
        _require_chunked(version, [value for name, value in headers if name == b"transfer-encoding"])
    if not target.startswith(b"/"):
        _require_same_host(target, host)
    if b"#" in target:
        raise RefusedError(f"the target of the request is {_shown(target)}, expected one without a fragment")


def require_trailer(name: bytes) -> None:
    """Require that a field, whose name is in lower case, may come after a body. Raises RefusedError."""
    if name in _NOT_IN_TRAILERS:
        raise RefusedError(f"{_title(name)} comes after the body of the request, expected before it")


def _require_chunked(version: str, codings: Sequence[bytes]) -> None:
    if version == "1.0":
        raise RefusedError("the request is of HTTP/1.0 and has a Transfer-Encoding, expected a Content-Length")
    if len(codings) > 1 or codings[0].lower() != b"chunked":
        message = f"the Transfer-Encoding is {_shown(b', '.join(codings))}, expected 'chunked'"
        raise RefusedError(message, HTTPStatus.NOT_IMPLEMENTED)


def _require_same_host(target: bytes, host: bytes | None) -> None:
    found = _ABSOLUTE.match(target)
    if found is not None and host is not None and found[1].lower() != host.lower():
        raise RefusedError(f"the target of the request is {_shown(target)}, expected one of host {_shown(host)}")


def _title(name: bytes) -> str:
    return name.decode("latin-1").title()


def _shown(value: bytes) -> str:
    return repr(value[:_SHOWN].decode("latin-1"))
