"""Which page had a browser send a request. A browser on this host sends here what any web page has it send."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal_hosting.access.hosts import AllowedHosts

_SHOWN = 80
"""Characters of a header in a message."""


def objection_to_page(method: str, headers: Mapping[bytes, bytes], hosts: AllowedHosts) -> str:
    """Say why a request may not be served because of the page that sent it; empty if it may.

    ``headers`` have names in lower case. Programs that are no browsers send none of them but Host, so that only its
    name is checked. A request without Host is not from a browser. A page of another server may lead here by a link:
    what is shown then is a page of this server, and GET changes nothing.
    """
    host = headers.get(b"host", b"").decode("latin-1")
    if host and not hosts.admits(host):
        return f"the request is for host '{host[:_SHOWN]}', expected {hosts}; --allowed-host allows others"
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and origin.partition("://")[2] != host:
        return f"a page of {origin[:_SHOWN]} sent this request, expected a page of this server"
    site = headers.get(b"sec-fetch-site", b"none")
    if site in (b"none", b"same-origin") or _is_link(method, headers):
        return ""
    shown = site[:_SHOWN].decode("latin-1")
    return f"a page of another server sent this request (Sec-Fetch-Site: {shown}), expected a page of this server"


def _is_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether the whole window goes to what the request asks for."""
    return (
        method in ("GET", "HEAD")
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )
