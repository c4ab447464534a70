"""Telling another process in whose name something is asked: the message OnBehalfOf, on the link and with calls."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from nnhal.shares import Level, Tenant
from nnhal.v1 import link_pb2 as wire

ON_BEHALF_METADATA = "nnhal-on-behalf-of-bin"
"""The metadata of calls that are made for another client: a message OnBehalfOf."""
_MOST_LEVELS = 8
"""Users, processes and sessions, of intermediaries in one another."""
_LONGEST = 200
"""Characters of an id and of a title that others give."""


def tenant_to_wire(client: Tenant) -> wire.OnBehalfOf | None:
    """Return what another process is told of a client; None for the process itself."""
    if not client.levels:
        return None
    return wire.OnBehalfOf(tenants=[wire.Tenant(id=level.id, title=level.title) for level in client.levels])


def tenant_from_wire(message: wire.OnBehalfOf | bytes | None) -> Tenant:
    """Return the client that another process has named. What is not readable names none."""
    if isinstance(message, bytes):
        try:
            message = wire.OnBehalfOf.FromString(message)
        except DecodeError:
            message = None
    if message is None:
        return Tenant()
    return Tenant(tuple(Level(_shown(t.id), _shown(t.title) or "a client") for t in message.tenants[:_MOST_LEVELS]))


def _shown(text: str) -> str:
    shown = text[:_LONGEST]
    return shown if shown.isprintable() else "".join(filter(str.isprintable, shown))
