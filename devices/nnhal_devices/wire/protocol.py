"""The numbers and names of the wire's protocol (proto/nnhal/v1/wire.proto)."""

from __future__ import annotations

PROTOCOL_VERSION = 1
SESSION_TOKEN_METADATA = "nnhal-wire-session"
"""The metadata that carries the session's token."""
CHUNK_BYTES = 1 << 20
"""The most bytes of tensors or constants in one message."""
KEEPALIVE_OPTIONS = (
    # Both ends ask after each other, so that a cut cable or a stopped host is noticed within seven seconds.
    ("grpc.keepalive_time_ms", 3000),
    ("grpc.keepalive_timeout_ms", 4000),
    ("grpc.http2.ping_timeout_ms", 4000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
)
"""Options of gRPC for channels and servers."""
