"""What gRPC's core reads from the environment when it is imported."""

from __future__ import annotations

import os

_EXPERIMENTS = "GRPC_EXPERIMENTS"
# From 1.80 on the Python server reads connections in threads of the core's own, and hands what it has read to the one
# that waits. Without that hand-over a small request is about a tenth faster, and costs a sixth less processor time.
_NO_READING_THREADS = "-event_engine_listener"


def configure_grpc() -> None:
    """Have connections read by the server's own thread. Of use before gRPC is imported; what the user has set stays."""
    os.environ.setdefault(_EXPERIMENTS, _NO_READING_THREADS)
