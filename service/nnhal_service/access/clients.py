"""Who is one client for rate limits: a token, or without tokens a host, however it connects."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import unquote

THIS_HOST = "host: this one"
"""Everybody who connects over loopback, whose addresses are 16 million, or over a unix socket."""
_PREFIX = 64
"""The bits of IPv6 that name a network, in which each host may take as many addresses as it likes."""


def token_client(name: str) -> str:
    """The client that shows a token, by the token's name."""
    return f"token: {name}"


def user_client(uid: int) -> str:
    """The client that is a user of this host."""
    return f"user: {uid}"


def host_client(peer: str) -> str:
    """The host of a peer, whose name is as gRPC writes it, such as ``ipv4:10.0.0.1:5000`` and ``unix:``."""
    family, _, rest = peer.partition(":")
    return THIS_HOST if family == "unix" else _client_at(rest.rpartition(":")[0])


@lru_cache(1024)
def _client_at(host: str) -> str:
    """The client at an address, in brackets if it is of IPv6; gRPC writes these as %5B and %5D."""
    name = unquote(host).strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return f"host: {name}"
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return THIS_HOST
    if isinstance(address, ipaddress.IPv6Address):
        return f"host: {ipaddress.IPv6Network((address, _PREFIX), strict=False)}"
    return f"host: {address}"
