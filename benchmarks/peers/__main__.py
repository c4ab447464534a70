"""``python -m benchmarks.peers``: nnhal, Triton, MLServer and KServe measured on the same models.

All serve the same ONNX files at the same time, and windows of all contenders take turns, with Triton's client in Python
for every server: so other load of the machine, and the client's own time, meet all alike.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import numpy as np
import onnx
import typer

from benchmarks.__main__ import run
from benchmarks.environments import InstallationError
from benchmarks.load import GRPC, HTTP, IN_PROCESS, NATIVE, Load, LoadError, Target, Window
from benchmarks.models import cnn, rectifier
from benchmarks.peers.starting import REQUIREMENTS, PeerAddresses, PeerError, peer_server
from benchmarks.testbeds import ServedModels, serving
from nnhal_tools.bench.runner import Aim, Report, figure_table, say

_TINY, _CNN, _LARGE = "tiny", "cnn", "large"
_MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    _TINY: lambda: rectifier(1 << 10),
    _CNN: cnn,
    _LARGE: lambda: rectifier(16 << 20),
}
_NATIVE, _COPIED, _FLOOR = "nnhal native, in place", "nnhal native, copied", "ONNX Runtime in process"
_TITLES = {"pytriton": "Triton", "mlserver": "MLServer", "kserve": "KServe"}
_OVER_TRITON = {_TINY: 4.0, _CNN: 1.0, _LARGE: 3.0}
"""How many times the rate of Triton's fastest way the native client should have."""


class Contender(NamedTuple):
    """Server that is measured, and its processes."""

    target: Target
    servers: tuple[int, ...] = ()


class Result(NamedTuple):
    """A contender on a model, medians over the rounds; times are µs."""

    model: str
    concurrency: int
    contender: str
    rate: float
    p50: float
    p99: float
    cpu: float
    """Processor time of the servers for a request."""
    spread: float
    """The range of the rates over their median."""


def peers(
    models: Annotated[str, typer.Option(help="With commas between.")] = ",".join(_MODELS),
    peer: Annotated[str, typer.Option("--peers", help="With commas between.")] = ",".join(REQUIREMENTS),
    concurrency: Annotated[str, typer.Option(help="Clients at a time, with commas between.")] = "1,4",
    seconds: Annotated[float, typer.Option(help="Of one window.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    instances: Annotated[int, typer.Option(help="Of each model, on every server; 0 for one a processor.")] = 0,
    front_workers: Annotated[int | None, typer.Option(help="nnhal's processes that serve the protocol.")] = None,
) -> Report:
    """nnhal, Triton, MLServer and KServe on the same models. It fails if an aim is missed."""
    files = {name: _MODELS[name]() for name in models.split(",")}
    count = instances or os.cpu_count() or 1
    results: list[Result] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-peers-")))
        own = stack.enter_context(serving(files, count, front_workers))
        found = dict(_started(stack, filter(None, peer.split(",")), own.files, count, directory))
        for name, file in files.items():
            contenders = _contenders(name, file, own, found)
            for clients in map(int, concurrency.split(",")):
                results += run_rounds(name, contenders, clients, seconds, rounds)
    return report_of(results)


def report_of(results: Sequence[Result]) -> Report:
    """Return the results of each model, the fastest first, and the aims."""
    groups = dict.fromkeys((each.model, each.concurrency) for each in results)
    ordered = sorted(results, key=lambda each: (list(groups).index((each.model, each.concurrency)), -each.rate))
    rows = [
        (*each[:3], f"{each.rate:,.1f}", *(f"{time:,.0f}" for time in each[4:7]), f"{each.spread:.0%}")
        for each in ordered
    ]
    columns = "requests/s,p50 µs,p99 µs,servers' CPU µs,spread"
    table = figure_table("Medians of rounds", "model,concurrency,contender", columns, rows)
    aims = [aim for group in groups for aim in aims_of([each for each in results if each[:2] == group])]
    return Report([table], aims)


def aims_of(results: Sequence[Result]) -> Iterator[Aim]:
    """Yield the aims of one model at one concurrency: of others' rates over nnhal's, and of floors."""
    own = {each.contender: each for each in results}
    model, clients = results[0][:2]
    tritons = [each for name, each in own.items() if name.startswith("Triton")]
    pairs = [(HTTP, "Triton HTTP, bytes", 1.2), (GRPC, "Triton gRPC, bytes", 1.0)] if model == _TINY else []
    pairs += [(GRPC, f"{_TITLES[peer]} gRPC, bytes", 1.0) for peer in ("mlserver", "kserve")]
    wanted = [(f"nnhal {protocol}, bytes", other, ratio) for protocol, other, ratio in pairs]
    if tritons:
        wanted.insert(0, (_NATIVE, max(tritons, key=lambda each: each.rate).contender, _OVER_TRITON.get(model, 1.0)))
    for name, other, ratio in wanted:
        if name in own and other in own:
            figure = own[other].rate / own[name].rate
            yield Aim(f"{model}, {clients} at a time: requests/s of {other} over {name}", figure, 1 / ratio)
    if model == _LARGE and {_NATIVE, _FLOOR} <= own.keys():
        yield Aim(
            f"{model}, {clients} at a time: p50 of {_NATIVE} over {_FLOOR}", own[_NATIVE].p50 / own[_FLOOR].p50, 1.1
        )


def run_rounds(
    model: str, contenders: Mapping[str, Contender], clients: int, seconds: float, rounds: int
) -> list[Result]:
    """Measure a window of each contender in every round. One that cannot go on is left out, with a message."""
    windows: dict[str, list[Window]] = {name: [] for name in contenders}
    with ExitStack() as stack:
        loads: dict[str, Load] = {}
        for number in range(rounds + 1):
            for name in list(windows) if number % 2 else list(windows)[::-1]:
                try:
                    if name not in loads:  # the round before the first
                        contender = contenders[name]
                        loads[name] = stack.enter_context(Load(contender.target, clients, contender.servers))
                    else:
                        windows[name].append(loads[name].measure(seconds))
                except LoadError as error:
                    say(f"{model}, {clients} at a time: {name} is left out: {error}")
                    del windows[name]
            say(f"{model}, {clients} at a time: round {number} of {rounds}, load {os.getloadavg()[0]:.1f}")
    return [_result(model, clients, name, own) for name, own in windows.items()]


def _result(model: str, clients: int, name: str, windows: Sequence[Window]) -> Result:
    rates = [window.rate for window in windows]
    p50, p99 = (median(float(np.percentile(window.latencies_us, p)) for window in windows) for p in (50, 99))
    cpu, spread = median(window.cpu_us for window in windows), (max(rates) - min(rates)) / median(rates)
    return Result(model, clients, name, median(rates), p50, p99, cpu, spread)


def _contenders(
    model: str, file: onnx.ModelProto, own: ServedModels, peers_by_name: Mapping[str, PeerAddresses]
) -> dict[str, Contender]:
    shapes = [
        [axis.dim_value for axis in end[0].type.tensor_type.shape.dim] for end in (file.graph.input, file.graph.output)
    ]
    inputs, output = {"x": shapes[0]}, shapes[1]
    native = Target(NATIVE, str(own.directory), model, inputs)
    found = {
        _FLOOR: Contender(Target(IN_PROCESS, "", str(own.files[model]), inputs, False, output)),
        _NATIVE: Contender(native._replace(shared=True), own.pids),
        _COPIED: Contender(native, own.pids),
    }
    servers = {"nnhal": PeerAddresses(own.grpc, own.http, 0)} | {
        _TITLES[name]: at for name, at in peers_by_name.items()
    }
    for title, addresses in servers.items():
        pids = own.pids if title == "nnhal" else (addresses.pid,)
        is_fast = title in ("nnhal", "Triton")  # the others are measured over gRPC, which is their faster way
        for kind in (GRPC, HTTP) if is_fast else (GRPC,):
            url = addresses.grpc if kind == GRPC else addresses.http
            for shared in (False, True) if is_fast else (False,):
                target = Target(kind, url, model, inputs, shared, output)
                found[f"{title} {kind}, {'shared memory' if shared else 'bytes'}"] = Contender(target, pids)
    return found


def _started(
    stack: ExitStack, names: Iterable[str], files: Mapping[str, Path], instances: int, directory: Path
) -> Iterator[tuple[str, PeerAddresses]]:
    """Yield the peers that can be installed and started. A message says why the others cannot."""
    for name in names:
        try:
            yield name, stack.enter_context(peer_server(name, files, instances, directory))
            say(f"{name} serves")
        except (PeerError, InstallationError) as error:
            say(f"{name} is left out: {error}")


if __name__ == "__main__":
    run(peers)
