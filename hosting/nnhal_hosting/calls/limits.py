"""Limits of gRPC calls on a process."""

from __future__ import annotations

from dataclasses import dataclass

_READ_AHEAD_BYTES = 16 << 10
_NOT_COMPRESSED = 1
"""The set of algorithms that has identity only: gRPC would decompress a message before its length is known."""


def read_ahead_options(size: int = _READ_AHEAD_BYTES) -> tuple[tuple[str, int], ...]:
    """The options of gRPC's server by which it reads that many bytes of a call that nobody serves yet.

    Otherwise it reads as much as the network could carry meanwhile, which was a megabyte of each call on the same host.
    Large messages are no slower there: their rest is asked for at once.
    """
    return (
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", size),
        ("grpc.server_handshake_timeout_ms", 10_000),
    )


def connections_option(most: int) -> tuple[str, int]:
    """The option of gRPC's server by which each of its addresses has that many connections at a time."""
    return ("grpc.max_allowed_incoming_connections", most)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The limits of one server. Each has a setting of the same name with ``rpc_`` before it."""

    prefix: str = ""
    """What the names of these settings begin with in the environment; empty if they are none."""
    threads: int = 16
    """Calls that are served at a time, beside two that each session may always have."""
    waiting: int = 256
    """Calls of one session that wait to be served."""
    streams: int = 32
    """Streams that are open at a time: watches of health, and reflection."""
    connections: int = 1024
    """Connections that are open at a time; gRPC closes the next one as soon as it has come."""
    connection_calls: int = 256
    """Calls of one connection that are open at a time; its client keeps back more."""
    read_ahead_bytes: int = _READ_AHEAD_BYTES
    """Bytes of the message of a call that waits to be served."""
    message_bytes: int = 128 << 20
    """Bytes of one message."""
    memory_bytes: int = 512 << 20
    """Bytes of the messages of all calls that are served."""
    stalled_secs: float = 10.0
    """Seconds until the message of a call must be complete."""

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """The options of gRPC's server that they call for."""
        return (
            ("grpc.max_receive_message_length", self.message_bytes),
            connections_option(self.connections),
            ("grpc.max_concurrent_streams", self.connection_calls),
            *read_ahead_options(self.read_ahead_bytes),
            ("grpc.compression_enabled_algorithms_bitset", _NOT_COMPRESSED),
        )
