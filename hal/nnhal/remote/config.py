"""The config of an execution as a client sends it."""

from __future__ import annotations

from dataclasses import replace

from nnhal.codec import config_to_wire
from nnhal.types import MAX_LOOP_TIMEOUT_NS, ExecutionConfig
from nnhal.v1 import request_pb2 as wire


def bounded_config_to_wire(config: ExecutionConfig) -> wire.ExecutionConfig:
    """Encode a config. A loop timeout above the maximum counts as the maximum (contract row CF-15)."""
    if config.loop_timeout_duration_ns > MAX_LOOP_TIMEOUT_NS:
        config = replace(config, loop_timeout_duration_ns=MAX_LOOP_TIMEOUT_NS)
    return config_to_wire(config)
