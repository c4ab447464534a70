"""What is measured: a model behind a transport, and what is sent to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from nnhal.errors import NnhalError


class BenchError(NnhalError):
    """A measurement that cannot be made: no such model, a server that does not answer, inputs that do not fit."""


class Transport(StrEnum):
    """How requests reach the model. ``IN_PROCESS`` is the floor: ONNX Runtime in the load generator itself."""

    NATIVE = "native"
    GRPC = "grpc"
    HTTP = "http"
    IN_PROCESS = "in_process"


@dataclass(frozen=True, slots=True)
class Target:
    """A model and what is sent to it.

    ``url`` is HOST:PORT, ``unix:PATH`` for gRPC, or the framework's directory for the native client. ``model`` is a
    name in the server's repository; for the native client it may be a model's file, in process it has to be one.
    ``shared_memory`` puts tensors in files of /dev/shm; for the native client, whose tensors lie in shared memory
    anyway, it means that they are used where they are, and not copied in and out. ``data`` is ``zero``, ``random`` or
    a file. ``output_bytes`` is the room for an output whose size is not known before. ``headers`` go with
    every request over gRPC (as metadata) and HTTP.
    """

    transport: Transport
    url: str
    model: str
    version: str = ""
    batch: int = 1
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    data: str = "random"
    shared_memory: bool = False
    output_bytes: int = 102_400
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The transport with its kind of shared memory, in words."""
        return f"{self.transport}, shared memory" if self.shared_memory else str(self.transport)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Target:
        """Of ``to_json``."""
        values = json.loads(line)
        values["transport"] = Transport(values["transport"])
        values["shapes"] = {name: tuple(shape) for name, shape in values["shapes"].items()}
        return Target(**values)
