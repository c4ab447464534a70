"""Names of nodes and values, which converters make long."""

from __future__ import annotations

ELLIPSIS = "…"


def shortened(name: str, width: int) -> str:
    """The name in at most ``width`` characters: its middle becomes an ellipsis, since both ends tell names apart."""
    if len(name) <= width:
        return name
    kept = max(width - len(ELLIPSIS), 0)
    return name[: kept - kept // 2] + ELLIPSIS + name[len(name) - kept // 2 :]
