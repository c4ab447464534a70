"""Where the framework's own time of a request goes: probes around the functions of its stages.

They are put into a framework that is started for that, so that it has no code for it. They read the clock of its
thread, which stands still while others have the processor. A probe takes about a microsecond, of which its row has some
0.3 and the others nothing. Each row is the median of many calls.
"""

from __future__ import annotations

import importlib
import json
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.table import Table

from benchmarks.serve.breakdown.usage import UsageSnapshot, usage_between
from benchmarks.serve.load import Load
from benchmarks.serve.server import DEVICE, MOST_INSTANCES, SMALL, serving, small_model
from benchmarks.serve.target import Target, Transport
from nnhal_service.serving.loop import ServingLoop

FILE = "NNHAL_BENCH_PROBES"
"""The variable that names the file to which a framework with probes writes what it has seen."""
_FOLDER = Path(__file__).parent / "probed"
_ROOT = Path(__file__).parents[3]
_MOST_CALLS = 200_000
_OF_REQUEST = "nnhal_service.serving.models.request_server:RequestServer._response"
_STAGES = {
    "nnhal_hosting.http:LimitedConnection.data_received": "read the head, admit",
    "nnhal_service.access.guard:Guard.admit": "read the head, admit",
    "nnhal_service.v2.http.infer:decode_body": "decode",
    "nnhal_service.v2.grpc.infer:cut_in_loop": "decode",
    "nnhal_service.v2.grpc.infer:head_of": "decode",
    "nnhal_service.v2.grpc.infer:request_from_wire": "decode",
    "nnhal_service.serving.requests.signature:ModelSignature.check": "check",
    "nnhal_service.serving.instances.loop_runner:LoopRunner.start": "fill an instance",
    "nnhal_service.serving.instances.instance:Instance.start": "start the run",
    "nnhal.link.call_channel:CallChannel.send": "send to the device",
    "nnhal.link.call_channel:CallChannel.receive": "receive from the device",
    "nnhal_service.serving.instances.instance:Instance.finish": "finish the run",
    "nnhal_service.serving.instances.loop_runner:LoopRunner.finish": "hand out",
    _OF_REQUEST: "hand out",
    "nnhal_service.serving.history.statistics:Executions.note": "count, tell observers",
    "nnhal_service.serving.history.statistics:StatisticsRecorder.succeeded": "count, tell observers",
    "nnhal_service.serving.models.request_server:RequestServer._notify_finished": "count, tell observers",
    "nnhal_service.v2.http.infer:encode": "encode",
    "nnhal_service.v2.grpc.infer:_encoded": "encode",
    "nnhal_hosting.whole_requests:DirectWay.respond": "write the answer",
}
"""The functions of each stage. The time of one within another is not that of the other."""


class _Probes:
    """Measures calls in one thread, each without those within it."""

    def __init__(self) -> None:
        self.seen: dict[str, array[int]] = {}
        self._within = 0

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        own = self.seen[name] = array("q")

        def probed(*arguments: Any, **named: Any) -> Any:
            began, outer, self._within = time.thread_time_ns(), self._within, 0
            start = time.thread_time_ns()
            try:
                return function(*arguments, **named)
            finally:
                took = time.thread_time_ns() - start - self._within
                if len(own) < _MOST_CALLS:
                    own.append(took)
                self._within = outer + time.thread_time_ns() - began

        return probed


def install(file: str) -> None:
    """Put probes into this process. It writes what they have seen to a file when its loop ends."""
    probes = _Probes()
    for place in _STAGES:
        module, _, path = place.partition(":")
        *holders, name = path.split(".")
        holder: Any = importlib.import_module(module)
        for each in holders:
            holder = getattr(holder, each)
        setattr(holder, name, probes.around(place, getattr(holder, name)))

    end = ServingLoop.__exit__

    def ended(loop: ServingLoop, *error: Any) -> None:
        end(loop, *error)
        Path(file).write_text(json.dumps({name: list(own) for name, own in probes.seen.items()}))

    ServingLoop.__exit__ = ended  # type: ignore[method-assign]


class OwnTime(NamedTuple):
    """Where the processor time of a request goes, in microseconds."""

    transport: Transport
    concurrency: int
    stages: Mapping[str, float]
    """The framework's, by what it does."""
    framework_us: float
    """All of the framework's, as it is without probes."""
    device_us: float


def own_time(kind: Transport, concurrency: int, seconds: float) -> OwnTime:
    """Measure requests of the small model, with probes and without. Raises BenchError or OSError."""
    instances = min(concurrency, MOST_INSTANCES)
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        file = Path(name) / "seen"
        path = f"{_FOLDER}:{_ROOT}"
        with serving({SMALL: small_model()}, instances, environment={FILE: str(file), "PYTHONPATH": path}) as server:
            _used(kind, server.urls[kind], concurrency, server.processes, seconds)
        seen = json.loads(file.read_text())
    with serving({SMALL: small_model()}, instances) as server:
        used = _used(kind, server.urls[kind], concurrency, server.processes, seconds)
    requests = len(seen[_OF_REQUEST])
    stages = dict.fromkeys(_STAGES.values(), 0.0)
    for place, stage in _STAGES.items():
        if seen[place]:
            stages[stage] += median(seen[place]) * len(seen[place]) / requests / 1e3
    return OwnTime(kind, concurrency, stages, used["framework"], used[DEVICE])


def _used(
    kind: Transport, url: str, concurrency: int, processes: Mapping[str, int], seconds: float
) -> dict[str, float]:
    """The processor time of each process for a request."""
    target = Target(kind, url, SMALL, "", 1, {}, "random", False, 1, {})
    own = {name: [pid] for name, pid in processes.items()}
    with Load([target] * concurrency) as load:
        load.measure(min(1.0, seconds))
        before = UsageSnapshot.of(own)
        requests = len(load.measure(seconds).latencies)
        rows = usage_between(before, UsageSnapshot.of(own), requests, None, 0)
    return {name: sum(row.processor_us for row in rows if row.process == name) for name in own}


def own_time_table(times: list[OwnTime]) -> Table:
    """The table of what was measured, a column for each."""
    table = Table("µs of a processor for each request")
    for each in times:
        table.add_column(f"{each.transport}, {each.concurrency} at a time", justify="right")
    for row in _rows(times):
        table.add_row(*row)
    return table


def _rows(times: list[OwnTime]) -> Iterator[tuple[str, ...]]:
    for stage in dict.fromkeys(_STAGES.values()):
        yield stage, *(f"{each.stages[stage]:.1f}" if each.stages[stage] else "" for each in times)
    rests = [each.framework_us - sum(each.stages.values()) for each in times]
    yield "event loop, tasks, server", *(f"{rest:.1f}" for rest in rests)
    yield "framework", *(f"{each.framework_us:.1f}" for each in times)
    yield "device", *(f"{each.device_us:.1f}" for each in times)
