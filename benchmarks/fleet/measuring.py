"""The figures of a real host, measured from outside: by what its clients see and what its processes use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from tritonclient.http import InferenceServerClient

from benchmarks.fleet.figures import HostFigures, ModelKind
from benchmarks.models import cnn, rectifier, write_model
from benchmarks.processes import process_ns
from benchmarks.scaling.senders import Destination, Sender
from benchmarks.testbeds import RunningTestbed, running_testbed

TINY = "tiny"
"""A model whose own time is next to nothing: what its requests take is the way there and back."""
_CNN = "cnn"
_IMAGE = (1, 3, 224, 224)
_COPIES = 9
_WORKERS = 2


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """What requests take."""

    front_seconds: float
    """The framework's processor time of a request to the tiny model."""
    way_seconds: tuple[float, ...]
    """The rest of the latency of each such request."""
    service_seconds: Mapping[str, tuple[float, ...]]
    """For each model, how long its requests take a device worker. Their mean is what a busy host's rate says; how they
    differ is how much longer they take, one at a time, than those to the tiny model.
    """


def measured_requests(
    sender: Sender, frameworks: Sequence[int], models: Sequence[str], workers: int, seconds: float, rounds: int
) -> RequestFigures:
    """Measure requests in windows of all models in turn: one at a time, and more than there are workers.

    ``frameworks`` are the ids of the frameworks of all hosts that the sender reaches, and ``workers`` is the number of
    their device workers. Raises BenchError.
    """
    latencies: dict[str, list[float]] = {name: [] for name in (TINY, *models)}
    rates: dict[str, list[float]] = {name: [] for name in models}
    front: list[float] = []
    for name in latencies:
        sender.keep_busy(name, 1, seconds / 4).require_none_failed(name)
    for _ in range(rounds):
        for name, found in latencies.items():
            before = sum(map(process_ns, frameworks))
            sent = sender.keep_busy(name, 1, seconds).require_none_failed(name)
            found += sent.latencies.tolist()
            if name == TINY:
                front.append((sum(map(process_ns, frameworks)) - before) / 1e9 / len(sent.errors))
            else:
                rates[name].append(sender.keep_busy(name, 2 * workers, seconds).require_none_failed(name).rate)
    own = float(np.median(front))
    way = float(np.median(latencies[TINY]))
    return RequestFigures(
        front_seconds=own,
        way_seconds=tuple(max(0.0, each - own) for each in latencies[TINY]),
        service_seconds={
            name: _with_mean(workers / float(np.median(rates[name])), [each - way for each in latencies[name]])
            for name in models
        },
    )


def _with_mean(mean: float, seconds: Sequence[float]) -> tuple[float, ...]:
    """Scale times to a mean; what noise has made negative counts as nothing."""
    positive = [max(0.0, each) for each in seconds]
    if not (total := sum(positive)):
        return (mean,) * len(positive)
    return tuple(each * mean * len(positive) / total for each in positive)


def measured_host(root: Path, seconds: float, rounds: int, say: Callable[[str], None]) -> HostFigures:
    """Measure a host that serves copies of a CNN on cpu_acc. Raises BenchError."""
    with _running_host(root) as host:
        say("the host runs")
        destination = Destination("http", host.addresses["http"], {TINY: (1, 256), _name(0): _IMAGE})
        with closing(InferenceServerClient(host.addresses["http"])) as server:
            for name in (TINY, _name(0)):
                server.load_model(name)
            with Sender(destination) as sender:
                requests = measured_requests(sender, [host.pids["framework"]], [_name(0)], _WORKERS, seconds, rounds)
            say("requests are measured")
            before = _resident(host)
            for number in range(1, _COPIES):
                server.load_model(_name(number))
            memory = max(1, (_resident(host) - before) // (_COPIES - 1))
            loads = [_swapped(server, _name(number), _name(number + 1)) for number in range(_COPIES - 1)]
    kind = ModelKind("CNN of 1.76 GFLOP on cpu_acc", requests.service_seconds[_name(0)], tuple(loads), memory)
    return HostFigures((kind,), requests.front_seconds, requests.way_seconds, _WORKERS)


@contextmanager
def _running_host(root: Path) -> Iterator[RunningTestbed]:
    for number in range(_COPIES):
        write_model(root / "models", _name(number), cnn())
    write_model(root / "models", TINY, rectifier(1 << 10))
    topology = (
        f'[[device]]\ndriver = "cpu_acc"\nworkers = {_WORKERS}\n'
        f'[framework]\nmodel_repository = ["{root / "models"}"]\nmodel_control_mode = "explicit"\n'
        "http_port = 0\ngrpc_port = 0\nmetrics_port = 0\n"
    )
    with running_testbed(root, topology, ["--no-dashboard"]) as host:
        yield host


def _name(number: int) -> str:
    return f"{_CNN}{number}"


def _swapped(server: InferenceServerClient, old: str, new: str) -> float:
    """Load one model in the place of another, and return the seconds that this takes."""
    server.unload_model(new)
    begun = time.monotonic()
    server.unload_model(old)
    server.load_model(new)
    return time.monotonic() - begun


def _resident(host: RunningTestbed) -> int:
    """Return the bytes that the host's processes have, each page that they share counted once."""
    return sum(psutil.Process(pid).memory_full_info().pss for pid in host.pids.values())
