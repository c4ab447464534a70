"""Clients whose calls were refused."""

from __future__ import annotations

from nnhal_pages.operating.table import Resource, ResourceColumn

CLIENTS = Resource(
    "clients",
    "Clients whose calls of the protocol were refused before a model ran, by reason.",
    (
        ResourceColumn("client", lambda refused: refused.client),
        ResourceColumn("refused", lambda refused: refused.count),
        ResourceColumn("why", lambda refused: refused.reason),
        ResourceColumn("last", lambda refused: refused.last_ns, "ns since the epoch"),
    ),
    "no call was refused",
    lambda snapshot: ((each,) for each in (snapshot.framework.refused if snapshot.framework is not None else ())),
    of_framework=True,
)
