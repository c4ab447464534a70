"""The stages of a request one after the other, from the client's clock and what the server records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.generators import BenchError
from benchmarks.serve.load import Load, MeasurementWindow
from benchmarks.serve.server import BenchServer
from benchmarks.serve.statistics import Statistics
from benchmarks.serve.target import Target, Transport
from benchmarks.serve.transports.grpc_v2 import GrpcConnection
from nnhal.clock import boottime_shift
from nnhal.inference import grpc_service_pb2 as wire

_FILE = "breakdown.json"
_TRACED = {"trace_level": "TIMESTAMPS", "trace_rate": "1", "trace_file": _FILE}
_SECONDS = 1.0
"""At most: a traced request costs the server more, and all traces are in memory until they are written."""
Durations = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StageTime:
    """A part of a request's time. ``p50_us`` is -1 if only the mean is known."""

    name: str
    p50_us: float
    mean_us: float


def traced_stages(target: Target, server: BenchServer, seconds: float) -> list[StageTime]:
    """The stages of requests over the protocol, one at a time, each of them traced. Raises BenchError or OSError."""
    with Load([target]) as load:
        load.measure(min(0.1, seconds))
        with _tracing(server, target.model):
            window = load.measure(min(seconds, _SECONDS))
    files = list(server.traces.glob(f"{_FILE}*"))
    traces = _Traces([entry for file in files for entry in json.loads(file.read_text())])
    for file in files:
        file.unlink()
    return list(_stages(traces, window, target.transport))


def direct_stages(window: MeasurementWindow, server: Statistics | None) -> list[StageTime]:
    """Return the stages of a native client's requests. The server counts only the time that they took on the device.

    ``server`` are its statistics of the same time; None if it has none.
    """
    count = len(window.latencies)
    on_device = server.mean_us(server.request_ns) if server is not None else 0.0
    sent, received = window.send_ns / count / 1e3, window.receive_ns / count / 1e3
    around = float(np.mean(window.latencies)) / 1e3 - sent - received - on_device
    return [
        StageTime("client: copy the inputs", -1, sent),
        StageTime("to the device and back", -1, around),
        StageTime("device: the run", -1, on_device),
        StageTime("client: copy the outputs", -1, received),
    ]


@contextmanager
def _tracing(server: BenchServer, model: str) -> Iterator[None]:
    """Trace every request of a model. At the end, all traces are in files."""
    with closing(GrpcConnection(server.urls[Transport.GRPC])) as connection:
        _set(connection, model, _TRACED)
        try:
            yield
        finally:
            _set(connection, model, dict.fromkeys(_TRACED, ""))


def _set(connection: GrpcConnection, model: str, settings: Mapping[str, str]) -> None:
    request = wire.TraceSettingRequest(model_name=model)
    for name, value in settings.items():
        request.settings[name].value.extend([value] if value else [])
    connection.call("TraceSetting", request, wire.TraceSettingResponse)


class _Traces:
    """The traces of a series in the order of their beginning, with instants of CLOCK_MONOTONIC."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        """``entries`` are those of Triton's files. Raises BenchError if there are none."""
        shift = -boottime_shift()
        instants: dict[int, dict[str, int]] = {}
        steps: dict[int, list[dict[str, Any]]] = {}
        for entry in entries:
            steps.setdefault(entry["id"], entry.get("nnhal_steps", []))
            for stamp in entry.get("timestamps", ()):
                instants.setdefault(entry["id"], {})[stamp["name"]] = stamp["ns"] + shift
        whole = [number for number, own in instants.items() if "COMPUTE_END" in own]
        if not whole:
            raise BenchError("the server has traced none of the requests")
        whole.sort(key=lambda number: instants[number]["REQUEST_START"])
        self._instants = [instants[number] for number in whole]
        self._steps = [steps[number] for number in whole]

    def at(self, name: str) -> Durations:
        """An instant of each request."""
        return np.array([own[name] for own in self._instants], np.int64)

    def time_of_steps(self, name: str) -> Durations:
        """A time of each request's steps on devices, in all."""
        return np.array([sum(max(0, step[name]) for step in own) for own in self._steps], np.int64)


def _stages(traces: _Traces, window: MeasurementWindow, transport: Transport) -> Iterator[StageTime]:
    arrived, ended = traces.at("REQUEST_START"), traces.at("COMPUTE_END")
    place = np.searchsorted(window.starts, arrived, side="right") - 1  # one at a time: the request that is under way
    begun = window.starts[place]
    answered = begun + window.latencies[place]
    queued, taken = traces.at("QUEUE_START"), traces.at("COMPUTE_START")
    running, ran = traces.at("COMPUTE_INPUT_END"), traces.at("COMPUTE_OUTPUT_START")
    in_driver, on_device = traces.time_of_steps("time_in_driver_ns"), traces.time_of_steps("time_on_device_ns")
    yield _stage(f"client to {transport} front: encode, send, wake, receive", arrived - begun)
    yield _stage("framework: decode, check, admit", queued - arrived)
    yield _stage("framework: queue", taken - queued)
    yield _stage("framework: copy the inputs", running - taken)
    yield _stage("framework to device and back: send, wake, receive", ran - running - in_driver)
    yield _stage("device: prepare and end the run", in_driver - on_device)
    yield _stage("device: the run", on_device)
    yield _stage("framework: hand out the outputs", ended - ran)
    yield _stage(f"{transport} front to client: encode, send, wake, receive", answered - ended)


def _stage(name: str, durations: Durations) -> StageTime:
    return StageTime(name, float(np.median(durations)) / 1e3, float(np.mean(durations)) / 1e3)
