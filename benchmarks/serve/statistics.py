"""The server's statistics of a model's requests: ModelStatistics, over gRPC or HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.generators import BenchError
from benchmarks.serve.target import Target, Transport
from benchmarks.serve.transports.grpc_v2 import GrpcConnection
from benchmarks.serve.transports.http_connection import HttpConnection
from benchmarks.serve.transports.http_v2 import model_path
from nnhal.inference import grpc_service_pb2 as wire

_SOCKET = "inference.sock"
"""The socket on which the framework serves the protocol, in its own directory."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The server's counts and times since the model was loaded."""

    inferences: int
    """Inferences. A batch has several."""
    executions: int
    """Executions of the model."""
    requests: int
    """Successful requests."""
    request_ns: int
    """Time of requests, in all."""
    queue_ns: int
    """Time in the queue."""
    compute_input_ns: int
    """Time of preparing inputs."""
    compute_infer_ns: int
    """Time of computing."""
    compute_output_ns: int
    """Time of preparing outputs."""

    def since(self, before: Statistics) -> Statistics:
        """The difference to earlier statistics."""
        values = (getattr(self, field.name) - getattr(before, field.name) for field in fields(self))
        return Statistics(*values)

    def mean_us(self, total_ns: int) -> float:
        """Microseconds of a request, on average."""
        return total_ns / max(1, self.requests) / 1e3

    @property
    def overhead_ns(self) -> int:
        """The time of a request that is in no other part."""
        parts = self.queue_ns + self.compute_input_ns + self.compute_infer_ns + self.compute_output_ns
        return max(0, self.request_ns - parts)


Read = Callable[[], Statistics | None]
"""The present statistics; None if the server has none."""


def statistics_of(target: Target) -> AbstractContextManager[Read]:
    """A reader of the model's statistics, connected during the context."""
    if target.transport is Transport.GRPC:
        return _over_grpc(target, target.url)
    if target.transport is Transport.HTTP:
        return _over_http(target)
    socket = Path(target.url) / _SOCKET
    if target.transport is Transport.NATIVE and socket.exists() and not Path(target.model).is_file():
        return _over_grpc(target, f"unix:{socket}")
    return nullcontext(lambda: None)


@contextmanager
def _over_grpc(target: Target, url: str) -> Iterator[Read]:
    request = wire.ModelStatisticsRequest(name=target.model, version=target.version)
    with closing(GrpcConnection(url, target.headers)) as connection:

        def read() -> Statistics | None:
            try:
                answer = connection.call("ModelStatistics", request, wire.ModelStatisticsResponse)
            except BenchError:
                return None
            return _sum([_from_grpc(model) for model in answer.model_stats])

        yield read


@contextmanager
def _over_http(target: Target) -> Iterator[Read]:
    with closing(HttpConnection(target.url, target.headers)) as connection:

        def read() -> Statistics | None:
            try:
                answer = connection.request("GET", f"{model_path(target.model, target.version)}/stats")
            except BenchError:
                return None
            return _sum([_from_json(model) for model in answer["model_stats"]])

        yield read


def _sum(versions: list[Statistics]) -> Statistics | None:
    if not versions:
        return None
    return Statistics(*(sum(getattr(version, field.name) for version in versions) for field in fields(Statistics)))


def _from_grpc(model: wire.ModelStatistics) -> Statistics:
    found = model.inference_stats
    return Statistics(
        model.inference_count,
        model.execution_count,
        found.success.count,
        found.success.ns,
        found.queue.ns,
        found.compute_input.ns,
        found.compute_infer.ns,
        found.compute_output.ns,
    )


def _from_json(model: dict[str, Any]) -> Statistics:
    """Numbers of 64 bits may be strings in JSON made of protobuf messages."""
    found = model.get("inference_stats", {})

    def number(part: str, name: str) -> int:
        return int(found.get(part, {}).get(name, 0))

    return Statistics(
        int(model.get("inference_count", 0)),
        int(model.get("execution_count", 0)),
        number("success", "count"),
        number("success", "ns"),
        number("queue", "ns"),
        number("compute_input", "ns"),
        number("compute_infer", "ns"),
        number("compute_output", "ns"),
    )
