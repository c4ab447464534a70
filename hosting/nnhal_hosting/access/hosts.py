"""The names under which a server may be addressed.

If a stranger's DNS name comes to mean this host's address (DNS rebinding), the browser takes the stranger's page for a
page of this server. Only the header Host tells them apart: it has the stranger's name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from nnhal_hosting.access.listeners import TcpListener

ANY_HOST = "*"
"""Stands for every name."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NOT_PUBLIC = (".localhost", ".local", ".internal", ".test", ".home.arpa")
"""Ends of names that public DNS never has, so that no stranger can own one."""
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")


def host_name(text: str) -> str:
    """Return a name in lower case, or an address without brackets.

    Raises ValueError if it is neither ``ANY_HOST`` nor a name or an address without a scheme and a port.
    """
    name = text.lower()
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    if name == ANY_HOST or _address(name) is not None or _NAME.fullmatch(name):
        return name
    raise ValueError("expected the name of a host or its address, without scheme and port, or '*' for any")


HostName = Annotated[str, AfterValidator(host_name)]
"""A setting that is a ``host_name``."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Values that a request may have as its Host, with any port: loopback names, by default nothing else."""

    names: frozenset[str] = frozenset()
    """Other hosts, each a ``host_name``."""
    allows_private: bool = False
    """IP addresses too, names without a dot, and names that public DNS never has."""
    allows_any: bool = False

    @classmethod
    def of(cls, listener: TcpListener, has_tokens: bool, names: Collection[HostName] = ()) -> AllowedHosts:
        """The hosts of a listener: ``names``, and those that its address makes safe.

        At a loopback address these are loopback names. At others they are all that no stranger can own; with tokens and
        without ``names`` any host, since a stranger's page has no token.
        """
        own = {*names, listener.host.lower()}
        is_open = not listener.is_loopback
        allows_any = ANY_HOST in own or (is_open and has_tokens and not names)
        return cls(frozenset(own - {ANY_HOST}), is_open, allows_any)

    def admits(self, host: str) -> bool:
        """Return whether a request may have this value, such as ``localhost:8000``, in its header Host."""
        if self.allows_any:
            return True
        name, port = _split(host)
        if port and not port.isdecimal():
            return False
        return name in _LOOPBACK or name in self.names or self._admits_others(name)

    def __str__(self) -> str:
        private = ["an IP address", "a name without a dot"] if self.allows_private else []
        others = sorted(name for name in self.names - _LOOPBACK if _address(name) is None)
        return ", ".join(["localhost or a loopback address", *private, *others])

    def _admits_others(self, name: str) -> bool:
        address = _address(name)
        if address is not None:
            return self.allows_private or address.is_loopback
        if not self.allows_private or not _NAME.fullmatch(name):
            return False
        return "." not in name or name.endswith(_NOT_PUBLIC)


def _split(host: str) -> tuple[str, str]:
    """The host's ``host_name``, and its port."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name.lower(), rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name.lower(), port


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


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
    """Return whether the whole window goes to what the request asks for."""
    return (
        method in ("GET", "HEAD")
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )
