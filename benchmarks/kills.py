"""``python -m benchmarks.kills``: what clients see of a device that is killed again and again.

A model has a step on each of three devices. Clients send requests without pause, over HTTP and gRPC, and compare every
answer. The device of the middle step, or each of ``--victims``, is killed again soon after it serves again, while the
others stay alive. A fall-back is the longest of the requests that were under way at a kill. The exit status is 1 if a
request was lost or wrong; the other aims depend on the machine, and are printed as met or missed.

With ``--all`` there are no such clients: all devices are killed at one moment, again and again, and the figures are how
long after that each of them answers on its link, and a request is served.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import grpc
import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper, numpy_helper

from benchmarks.aims import Aim, aim_table, statement
from benchmarks.tables import ShownTables
from benchmarks.testbeds import RunningTestbed, running_testbed
from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.remote import RemoteDevice
from nnhal.remote.supervisor import SupervisorControl
from nnhal.types import NO_DEADLINE
from nnhal.v1 import supervisor_pb2
from nnhal_client import connect
from tests.support.resources import resident_bytes, resources_of, threads_of

_MODEL = "relay"
_SIZE = 64
_TOLERANCE = 1e-4
_CALM_SECONDS = 5.0
"""Without kills, before the first one."""
_LONGEST_PAUSE_SECONDS = 0.5
"""Between the moment that the device serves again and the next kill: a random part of it."""
_BACK_SECONDS = 60.0
_LEAK_SECONDS = 3.0
_LOOK_SECONDS = 0.02
_DEADLINE_NS = 60 * 10**9
"""That of runs with one, which is never to be met."""
_LONGEST_WAIT_SECONDS, _FALL_BACK_MS = 1.5, 20.0
_SPARE_DESCRIPTORS = 16
"""How many more descriptors than before may be held: a client's connection is accepted by any of the processes."""
_SHOWN = 5
Infer = Callable[[], Array]


@dataclass(slots=True)
class _Client:
    """What became of the requests of one client."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    """When each began and ended."""
    lost: list[str] = field(default_factory=list)
    wrong: int = 0


def main() -> int:
    """Print the figures. Returns 1 if a request was lost, or had a wrong answer."""
    parser = argparse.ArgumentParser("python -m benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--front-workers", type=int, default=2, help="0 to have the framework's process serve")
    parser.add_argument(
        "--devices",
        type=lambda text: text.split(","),
        default=["gpu_acc", "cpu_acc", "cpu_ref"],
        help="drivers, or NAME=DRIVER; gpu_acc is chained by fences, and others are wired",
    )
    parser.add_argument(
        "--victims", type=lambda text: text.split(","), default=[], help="devices that are killed, each on its own"
    )
    parser.add_argument(
        "--ways",
        type=lambda text: text.split(","),
        default=["http", "grpc"],
        help="those of the clients in turn; native ones load the model themselves and run it directly, native-binding "
        "through the framework, and native-deadline with a deadline too",
    )
    parser.add_argument("--beside", type=lambda text: text.split(","), default=[], help="devices without a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="kill all devices at once")
    given = parser.parse_args()
    workers = [f"front_workers = {given.front_workers}"] if given.front_workers else []
    named = dict(word.rpartition("=")[::2] if "=" in word else (word, word) for word in given.devices + given.beside)
    given.victims = given.victims or [list(named)[1]]
    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        expected = _write_model(Path(folder) / "models", list(named)[: len(given.devices)])
        topology = _topology(named, Path(folder) / "models", workers)
        with running_testbed(Path(folder), topology) as testbed:
            if given.all:
                return _kill_all(testbed, expected[0], given.kills)
            clients = [_Client() for _ in range(given.clients)]
            before, kills, after = _run(testbed, clients, expected, given)
    return _report(clients, kills, before, after)


def _run(
    testbed: RunningTestbed, clients: Sequence[_Client], expected: tuple[Array, Array], given: argparse.Namespace
) -> tuple[_Holdings, list[float], _Holdings]:
    """Kill the victims while clients run. Returns when, and what the framework held around that."""
    kills: list[float] = []
    stop = threading.Event()
    threads = [
        threading.Thread(target=_send, args=(testbed, given.ways[number % len(given.ways)], client, expected, stop))
        for number, client in enumerate(clients)
    ]
    with SupervisorControl(testbed.directory) as supervisor, ExitStack() as stack:
        for thread in threads:
            stack.callback(thread.join)
            thread.start()
        stack.callback(stop.set)
        time.sleep(_CALM_SECONDS)
        before = _Holdings.of(testbed.pids["framework"])

        def kill(victim: str) -> None:
            pid, pauses = testbed.pids[victim], random.Random(f"{victim} {given.seed}")
            while len(kills) < given.kills:
                time.sleep(pauses.uniform(0, _LONGEST_PAUSE_SECONDS))
                kills.append(time.monotonic())
                os.kill(pid, signal.SIGKILL)
                if sys.stderr.isatty() or len(kills) % 25 == 0:
                    print(f"{len(kills)} of {given.kills} kills", file=sys.stderr)
                pid = _back(supervisor, victim, pid)

        with ThreadPoolExecutor(len(given.victims)) as pool:
            for killing in [pool.submit(kill, victim) for victim in given.victims]:
                killing.result()
        time.sleep(_LEAK_SECONDS)
        after = _Holdings.of(testbed.pids["framework"])
    return before, kills, after


def _kill_all(testbed: RunningTestbed, x: Array, kills: int) -> int:
    """Kill all devices at once, and print how soon they are back. Returns 0."""
    awaited: dict[str, Callable[[], None]] = {
        name: partial(_link, testbed.directory / name) for name in testbed.devices
    }
    awaited["a request"] = partial(_infer_once, testbed, x)
    seconds: dict[str, list[float]] = {name: [] for name in awaited}
    pids = dict(testbed.pids)
    with SupervisorControl(testbed.directory) as supervisor, ThreadPoolExecutor(len(awaited)) as threads:
        for _ in range(kills):
            time.sleep(_CALM_SECONDS)
            killed = time.monotonic()
            for name in testbed.devices:
                os.kill(pids[name], signal.SIGKILL)
            for name, answered in zip(awaited, threads.map(_until, awaited.values()), strict=True):
                seconds[name].append(answered - killed)
            pids = {name: _back(supervisor, name, pids[name]) for name in testbed.devices}
    print(f"seconds after {kills} kills of all devices:")
    for name, waits in seconds.items():
        print(f"  {name:12}median {median(waits):.2f}, longest {max(waits):.2f}")
    shares = [psutil.Process(pids[name]).memory_full_info().pss for name in testbed.devices]
    print(f"memory of the devices, each page by its share: {sum(shares) >> 20} MiB")
    return 0


def _until(attempt: Callable[[], None]) -> float:
    """Try until it succeeds, and return when it has."""
    until = time.monotonic() + _BACK_SECONDS
    while True:
        try:
            attempt()
            return time.monotonic()
        except (NnhalError, OSError, RuntimeError, http.client.HTTPException):
            if time.monotonic() > until:
                raise
            time.sleep(_LOOK_SECONDS)


def _link(directory: Path) -> None:
    """Open a link, and ask the device who it is."""
    with closing(RemoteDevice(Endpoint(directory), "kills")) as device:
        device.identity(_BACK_SECONDS)


def _infer_once(testbed: RunningTestbed, x: Array) -> None:
    with closing(_over_http(testbed, x)) as infers:
        next(infers)()


def _back(supervisor: SupervisorControl, name: str, dead: int) -> int:
    """Wait until a process serves again, and return its id. Raises RuntimeError if it does not."""
    until = time.monotonic() + _BACK_SECONDS
    while time.monotonic() < until:
        (found,) = [process for process in supervisor.processes().processes if process.name == name]
        if found.state == supervisor_pb2.SupervisedProcess.STATE_RUNNING and found.pid not in (0, dead):
            return found.pid
        time.sleep(_LOOK_SECONDS)
    raise RuntimeError(f"{name} is not back after {_BACK_SECONDS:.0f} s")


def _send(
    testbed: RunningTestbed, way: str, client: _Client, expected: tuple[Array, Array], stop: threading.Event
) -> None:
    """Send requests without pause, and check the answers."""
    infers = _WAYS[way](testbed, expected[0])
    with closing(infers):
        for infer in infers:
            began = time.monotonic()
            try:
                client.wrong += not np.allclose(infer(), expected[1], rtol=0, atol=_TOLERANCE)
            except (grpc.RpcError, NnhalError, OSError, RuntimeError, http.client.HTTPException) as error:
                client.lost.append(str(error))
            client.spans.append((began, time.monotonic()))
            if stop.is_set():
                return


def _over_http(testbed: RunningTestbed, x: Array) -> Generator[Infer]:
    """A function for each request."""
    tensor = {"name": "x", "shape": x.shape, "datatype": "FP32", "data": x.reshape(-1).tolist()}
    body = json.dumps({"inputs": [tensor]})
    with closing(http.client.HTTPConnection(testbed.addresses["http"])) as connection:

        def infer() -> Array:
            connection.request("POST", f"/v2/models/{_MODEL}/infer", body)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != http.client.OK:
                raise RuntimeError(f"{answer.status} {content.decode()}")
            return np.array(json.loads(content)["outputs"][0]["data"], np.float32).reshape(x.shape)

        while True:
            yield infer


def _over_grpc(testbed: RunningTestbed, x: Array) -> Generator[Infer]:
    """A function for each request."""
    tensor = wire.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=x.shape)
    request = wire.ModelInferRequest(model_name=_MODEL, inputs=[tensor], raw_input_contents=[x.tobytes()])
    with grpc.insecure_channel(testbed.addresses["grpc"]) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            wire.ModelInferRequest.SerializeToString,
            wire.ModelInferResponse.FromString,
        )

        def infer() -> Array:
            return np.frombuffer(call(request).raw_output_contents[0], np.float32).reshape(x.shape)

        while True:
            yield infer


def _natively(testbed: RunningTestbed, x: Array, way: str) -> Generator[Infer]:
    """A function for each run of a model that the client itself has loaded."""
    folder = testbed.directory.parent / "models" / _MODEL
    pins = dict(word.split("=") for word in (folder / "pins").read_text().split("; "))
    with connect(testbed.directory / "framework") as framework, ExitStack() as stack:
        model = framework.load(folder / "1" / "model.onnx", pins=pins, fallback="allow")
        (output,) = (tensor.name for tensor in model.outputs)
        if way == "native":
            while True:
                yield lambda: model.run({"x": x})[output]
        binding = stack.enter_context(model.bind(direct=False))

        def infer() -> Array:
            binding.inputs["x"][...] = x
            binding.run(now_ns() + _DEADLINE_NS if way == "native-deadline" else NO_DEADLINE)
            return binding.outputs[output]

        while True:
            yield infer


_WAYS: Mapping[str, Callable[[RunningTestbed, Array], Generator[Infer]]] = {
    "http": _over_http,
    "grpc": _over_grpc,
    **{way: partial(_natively, way=way) for way in ("native", "native-binding", "native-deadline")},
}


@dataclass(frozen=True, slots=True)
class _Holdings:
    """What a process and its children hold."""

    descriptors: int
    threads: int
    resident: int

    @classmethod
    def of(cls, pid: int) -> _Holdings:
        children = [
            int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()
        ]
        pids = [pid, *children]
        descriptors = sum(sum(resources_of(each).descriptors.values()) for each in pids)
        return cls(descriptors, sum(map(threads_of, pids)), sum(map(resident_bytes, pids)))


def _report(clients: Sequence[_Client], kills: Sequence[float], before: _Holdings, after: _Holdings) -> int:
    spans = [span for client in clients for span in client.spans]
    lost, wrong = [text for client in clients for text in client.lost], sum(client.wrong for client in clients)
    struck = [[ended - began for began, ended in spans if began <= kill < ended] for kill in kills]
    falls = [1000 * max(waits) for waits in struck if waits]
    calm = [1000 * (ended - began) for began, ended in spans if ended < kills[0]]
    print(f"{len(kills)} kills, {len(spans)} requests: {len(lost)} lost, {wrong} wrong")
    print(f"longest wait: {max(ended - began for began, ended in spans):.2f} s")
    print(f"a request without kills: median {median(calm):.1f} ms, longest {max(calm):.0f} ms")
    print(f"a fall-back: median {median(falls):.1f} ms, 99 %: {np.percentile(falls, 99):.0f} ms")
    print(f"framework and front workers, before and {_LEAK_SECONDS:.0f} s after the kills:")
    print(f"  {before.descriptors} and {after.descriptors} descriptors, {before.threads} and {after.threads} threads")
    print(f"  {before.resident >> 20} and {after.resident >> 20} MiB")
    print(f"load of the machine: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
    for text in lost[:_SHOWN]:
        print(f"lost: {text}")
    ShownTables().show(
        aim_table(
            [
                statement("no request is lost", len(lost)),
                statement("no answer is wrong", wrong),
                Aim("longest wait", max(ended - began for began, ended in spans), _LONGEST_WAIT_SECONDS, "s"),
                Aim("a fall-back, median", median(falls), _FALL_BACK_MS, "ms"),
                Aim("descriptors more than before", after.descriptors - before.descriptors, _SPARE_DESCRIPTORS),
            ]
        )
    )
    return int(bool(lost or wrong))


def _write_model(repository: Path, devices: Sequence[str]) -> tuple[Array, Array]:
    """Write a model with a step for each device, and return an input with its output."""
    generator = np.random.default_rng(0)
    weights = [generator.uniform(-1, 1, (_SIZE, _SIZE)).astype(np.float32) / 8 for _ in devices]
    names = ["x", *(f"y{number}" for number in range(len(devices)))]
    nodes = [
        helper.make_node("Gemm", [names[n], f"w{n}", f"b{n}"], [names[n + 1]], name=f"step{n}")
        for n in range(len(devices))
    ]
    constants = [numpy_helper.from_array(weight, f"w{n}") for n, weight in enumerate(weights)]
    constants += [numpy_helper.from_array(np.full(_SIZE, 0.1, np.float32), f"b{n}") for n in range(len(devices))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, _SIZE]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, _MODEL, ends[:1], ends[1:], constants)
    folder = repository / _MODEL
    (folder / "1").mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "1" / "model.onnx"
    )
    pins = "; ".join(f"name:step{number}={device}" for number, device in enumerate(devices))
    (folder / "pins").write_text(pins)
    (folder / "config.pbtxt").write_text(
        f'instance_group {{ count: 4 }}\nparameters {{ key: "nnhal.placement" value {{ string_value: "{pins}" }} }}\n'
    )
    x = generator.uniform(-1, 1, (1, _SIZE)).astype(np.float32)
    y: Array = x
    for weight in weights:
        y = y @ weight + np.float32(0.1)
    return x, y


def _topology(devices: Mapping[str, str], repository: Path, workers: Sequence[str]) -> str:
    """Return a topology of drivers by the names of their devices."""
    tables = [f'[[device]]\nname = "{name}"\ndriver = "{driver}"\n' for name, driver in devices.items()]
    ports = [f"{kind}_port = 0" for kind in ("http", "grpc", "metrics")]
    return "".join(tables) + "\n".join(["[framework]", f'model_repository = ["{repository}"]', *ports, *workers]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
