"""Limits of the gRPC server."""

from __future__ import annotations

from dataclasses import dataclass

UNIX = "unix:"
"""What the address of a unix socket begins with."""


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """The limits of one server."""

    calls: int = 1024
    """How many calls are open at a time; beyond them, calls end with RESOURCE_EXHAUSTED."""
    streams: int = 32
    """How many streams are open beside them."""
    watches: int = 1024
    """How many clients watch the health of something."""
    waiting: int = 1024
    """How many calls wait for their clients, to send the rest of a message or to take an answer; beyond them the oldest
    end.
    """
    connections: int = 1024
    """How many connections each address has at a time; the next one is closed as soon as it has come."""
    connection_calls: int = 1024
    """How many calls of one connection are open at a time; its client keeps back more."""
    threads: int = 16
    """How many calls that may wait, such as loading a model, are served at a time; inferences need no thread."""
    message_bytes: int = -1
    """The longest message; -1 for any length."""
    stalled_seconds: float = 10
    """The time that a client may take to greet, and for the next byte of a message or an answer."""
    idle_seconds: float = 3600
    """The time that a connection may be open without a call."""
