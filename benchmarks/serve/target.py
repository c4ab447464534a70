"""What is measured: a model behind a transport, and what is sent to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Transport(StrEnum):
    """How requests reach the model. Two are floors: ONNX Runtime in the load generator, which in ``PING_PONG`` first
    sends a datagram to another process and receives its echo."""

    NATIVE = "native"
    GRPC = "grpc"
    HTTP = "http"
    IN_PROCESS = "in_process"
    PING_PONG = "ping_pong"


FLOORS = frozenset({Transport.IN_PROCESS, Transport.PING_PONG})
"""What needs no server, and no shared memory. The model is a file."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model and what is sent to it."""

    transport: Transport
    """How requests are sent."""
    url: str
    """HOST:PORT, ``unix:PATH`` for gRPC, or the framework's directory for the native client."""
    model: str
    """Name in the server's repository; a file in process, and a file or a name for the native client."""
    version: str = ""
    """Version of the model; empty for the newest."""
    batch: int = 1
    """Batch size of a request."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of inputs with unknown dimensions."""
    data: str = "random"
    """``zero``, ``random`` or a JSON file."""
    shared_memory: bool = False
    """Put tensors in files of /dev/shm. For the native client: use its tensors in place instead of copying."""
    output_bytes: int = 102_400
    """Room for an output of unknown size."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request over HTTP, and over gRPC as metadata."""

    @property
    def title(self) -> str:
        """The transport with its kind of shared memory, in words."""
        return f"{self.transport}, shared memory" if self.shared_memory else str(self.transport)

    @staticmethod
    def from_json(line: str) -> Target:
        """Decode a target's fields from JSON."""
        values = json.loads(line)
        values["transport"] = Transport(values["transport"])
        values["shapes"] = {name: tuple(shape) for name, shape in values["shapes"].items()}
        return Target(**values)
