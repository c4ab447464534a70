"""Asking for the head of a page over HTTP or HTTPS."""

from __future__ import annotations

import socket
from contextlib import closing

from nnhal_tools.health.failure import Unhealthy

_PORTS = {"http": 80, "https": 443}
_LONGEST_LINE = 4096


def require_page(url: str, seconds: float) -> None:
    """Raise Unhealthy unless the answer to GET is a success or sends the caller elsewhere (2xx, 3xx).

    Certificates are not verified: what is asked is whether a process answers, and it is told nothing. ``seconds`` is
    how long each wait may take.
    """
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    host, port = _address(authority, _PORTS[scheme])
    try:
        with socket.create_connection((host, port), seconds) as plain, closing(_secured(plain, scheme)) as connection:
            request = f"GET {slash or '/'}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            with connection.makefile("rb") as answer:
                line = answer.readline(_LONGEST_LINE).decode("latin-1").strip()
    except TimeoutError:
        raise Unhealthy(f"no answer within {seconds:g} s") from None
    except OSError as error:
        raise Unhealthy(f"{error.strerror or error}") from None
    status = line.split(" ")[1] if line.startswith("HTTP/1.") and line.count(" ") else ""
    if status[:1] not in ("2", "3"):
        raise Unhealthy(f"it answers {line!r}" if line else "it closes the connection without an answer")


def _address(authority: str, default: int) -> tuple[str, int]:
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        return authority.strip("[]"), default
    if not port.isdecimal():
        raise Unhealthy(f"got port {port!r}, expected a number")
    return host.strip("[]"), int(port)


def _secured(connection: socket.socket, scheme: str) -> socket.socket:
    if scheme == "http":
        return connection
    import ssl  # as slow to import as all the rest

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)
