"""Load on a served model: clients in processes of their own, each of which sends a request when it has the answer."""

from __future__ import annotations

import multiprocessing
import signal
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from time import perf_counter_ns
from types import ModuleType
from typing import NamedTuple

import numpy as np
import onnxruntime
import psutil
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import shared_memory

from nnhal.arrays import Array
from nnhal_client import connect
from nnhal_tools.bench.runner import Action

HTTP, GRPC, NATIVE, IN_PROCESS = "HTTP", "gRPC", "native", "in process"
_CLIENTS: dict[str, ModuleType] = {HTTP: tritonclient.http, GRPC: tritonclient.grpc}
_STOP_SECONDS = 20.0


class LoadError(ValueError):
    """A model that cannot be measured. The message says why."""


class Target(NamedTuple):
    """A model that clients send requests to. Tensors are float32 of fixed dimensions."""

    kind: str
    """One of HTTP, GRPC, NATIVE, and IN_PROCESS: ONNX Runtime with one thread, the floor of all."""
    url: str
    """HOST:PORT; the framework's directory; not used in process."""
    model: str
    """The name of the model, or its file in process."""
    inputs: Mapping[str, Sequence[int]]
    """The dimensions of each input; over V2 and in process there is but one."""
    shared: bool = False
    """Tensors stay in memory that client and server share."""
    output_shape: Sequence[int] = ()
    """The dimensions of the output ``y``; not used natively."""


@dataclass(frozen=True, slots=True)
class Window:
    """Requests of all clients over some seconds."""

    latencies_us: np.ndarray[tuple[int], np.dtype[np.float64]]
    rate: float
    """Requests a second."""
    cpu_us: float
    """Processor time of the servers for a request."""


class Load:
    """Clients of a target. Use it as a context; it raises LoadError if one of them cannot go on."""

    def __init__(self, target: Target, clients: int, servers: Sequence[int] = ()) -> None:
        """``servers`` are the processes that serve, whose children do too."""
        context = multiprocessing.get_context("spawn")  # gRPC does not survive a fork
        self._servers = servers
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(clients):
            ours, theirs = context.Pipe()
            process = context.Process(target=_client, args=(theirs, target), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Load:
        try:
            for pipe in self._pipes:
                _answer(pipe)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(_STOP_SECONDS)
            process.kill()
            process.join()

    def measure(self, seconds: float) -> Window:
        """Let all clients send requests for some seconds."""
        before, began = _processor_seconds(self._servers), perf_counter_ns()
        for pipe in self._pipes:
            pipe.send(seconds)
        latencies = np.concatenate([np.frombuffer(_answer(pipe), np.int64) for pipe in self._pipes]) / 1e3
        took, used = (perf_counter_ns() - began) / 1e9, _processor_seconds(self._servers) - before
        return Window(latencies, len(latencies) / took, used / len(latencies) * 1e6)


def _answer(pipe: Connection) -> bytes:
    try:
        found: bytes | str = pipe.recv()
    except EOFError:
        found = "it ended"
    if isinstance(found, str):
        raise LoadError(f"a client cannot go on: {found}")
    return found


def _processor_seconds(pids: Sequence[int]) -> float:
    servers = [psutil.Process(pid) for pid in pids]
    everyone = {each for server in servers for each in (server, *server.children(recursive=True))}
    return float(sum(sum(each.cpu_times()[:2]) for each in everyone))


def _client(pipe: Connection, target: Target) -> None:
    """Send requests for as many seconds as each message says, and answer with their latencies in nanoseconds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts every process, but the parent ends its own
    try:
        with _OPENED[target.kind](target) as infer:
            infer()
            pipe.send(b"")
            while True:
                latencies = array("q")
                seconds = pipe.recv()
                now = perf_counter_ns()
                end = now + int(seconds * 1e9)
                while now < end:
                    started = perf_counter_ns()
                    infer()
                    now = perf_counter_ns()
                    latencies.append(now - started)
                pipe.send(latencies.tobytes())
    except (EOFError, BrokenPipeError):  # the parent has closed its end
        return
    except Exception as error:  # of whatever library; it is reported to the parent
        pipe.send(f"{type(error).__name__}: {error}")


def _values(target: Target) -> dict[str, Array]:
    random = np.random.default_rng(0)
    return {name: random.random(dimensions, np.float32) for name, dimensions in target.inputs.items()}


@contextmanager
def _native(target: Target) -> Iterator[Action]:
    """Run a binding, in place if tensors are shared; otherwise they are copied in and out."""
    values = _values(target)
    with connect(target.url) as framework, framework.open(target.model) as model, model.bind() as binding:
        binding.fill(values)

        def copied() -> object:
            binding.fill(values)
            binding.run()
            return [output.copy() for output in binding.outputs.values()]

        yield binding.run if target.shared else copied


@contextmanager
def _in_process(target: Target) -> Iterator[Action]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(target.model, options, providers=["CPUExecutionProvider"])
    binding, output = session.io_binding(), np.empty(target.output_shape, np.float32)
    ((name, values),) = _values(target).items()
    binding.bind_input(name, "cpu", 0, np.float32, values.shape, values.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, output.shape, output.ctypes.data)
    yield lambda: session.run_with_iobinding(binding)


@contextmanager
def _over_v2(target: Target) -> Iterator[Action]:
    """Send requests by Triton's client, with tensors as bytes or in a region of shared memory."""
    library, ((input_name, values),) = _CLIENTS[target.kind], _values(target).items()
    with ExitStack() as stack:
        client = stack.enter_context(library.InferenceServerClient(target.url))
        given = library.InferInput(input_name, list(values.shape), "FP32")
        wanted = library.InferRequestedOutput("y")
        if target.shared:
            output_bytes = int(np.prod(target.output_shape)) * 4
            name = f"nnhal-bench-{multiprocessing.current_process().pid}"
            region = shared_memory.create_shared_memory_region(name, f"/{name}", values.nbytes + output_bytes)
            stack.callback(shared_memory.destroy_shared_memory_region, region)
            shared_memory.set_shared_memory_region(region, [values])
            client.register_system_shared_memory(name, f"/{name}", values.nbytes + output_bytes)
            stack.callback(client.unregister_system_shared_memory, name)
            given.set_shared_memory(name, values.nbytes)
            wanted.set_shared_memory(name, output_bytes, values.nbytes)
            yield lambda: client.infer(target.model, [given], outputs=[wanted])
            return
        given.set_data_from_numpy(values)

        def infer() -> object:
            return client.infer(target.model, [given], outputs=[wanted]).as_numpy("y")

        yield infer


_OPENED = {HTTP: _over_v2, GRPC: _over_v2, NATIVE: _native, IN_PROCESS: _in_process}
