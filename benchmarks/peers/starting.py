"""Starting a peer's server, and waiting until it serves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import onnx

from benchmarks.generators import BenchError
from benchmarks.peers.environments import Peer, PeerError
from benchmarks.peers.triton import shared_memory_prefix, triton_command, triton_libraries
from benchmarks.serve.transports.grpc_v2 import GrpcConnection
from nnhal.inference import grpc_service_pb2 as wire

_PROGRAMS = Path(__file__).parent / "servers"
_ECHO = Path(__file__).parent / "echo.py"
_START_SECONDS = 90.0
_STOP_SECONDS = 15.0
_MESSAGE_BYTES = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of a peer, and the process that it was started as."""

    grpc: str
    http: str
    pid: int


@contextmanager
def peer_server(peer: Peer, models: Mapping[str, Path], instances: int, directory: Path) -> Iterator[Addresses]:
    """Run a peer's server until the context ends. Its output goes to DIRECTORY/NAME.log. Raises PeerError."""
    grpc_port, http_port, metrics_port = _free_ports(3)
    folder = directory / peer.name
    folder.mkdir(parents=True)
    command = _command(peer, models, instances, folder, grpc_port, http_port, metrics_port)
    log = directory / f"{peer.name}.log"
    try:
        with _running(command, folder, _environment(peer), log) as process:
            addresses = Addresses(f"127.0.0.1:{grpc_port}", f"127.0.0.1:{http_port}", process.pid)
            _await_models(process, addresses.grpc, list(models), log)
            yield addresses
    finally:
        for path in Path("/dev/shm").glob(f"{shared_memory_prefix(folder)}*"):
            path.unlink(missing_ok=True)


@contextmanager
def echo_server(model: str, directory: Path) -> Iterator[Addresses]:
    """Run a bare server of grpcio in nnhal's own environment, with one answer to every inference. Raises PeerError."""
    (port,) = _free_ports(1)
    log = directory / "echo.log"
    command = [sys.executable, str(_ECHO), str(port)]
    with _running(command, directory, dict(os.environ), log) as process:
        addresses = Addresses(f"127.0.0.1:{port}", "", process.pid)
        _await_models(process, addresses.grpc, [model], log)
        yield addresses


@contextmanager
def _running(
    command: list[str], folder: Path, environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        _end(process)


def _environment(peer: Peer) -> dict[str, str]:
    libraries = triton_libraries(peer) if peer.name == "pytriton" else []
    libraries.append(os.environ.get("LD_LIBRARY_PATH", ""))
    return {
        **os.environ,
        "PYTHONPATH": str(_PROGRAMS),
        "PATH": f"{peer.python.parent}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
    }


def _command(
    peer: Peer, models: Mapping[str, Path], instances: int, folder: Path, grpc: int, http: int, metrics: int
) -> list[str]:
    if peer.name == "pytriton":
        return triton_command(peer, models, instances, folder, grpc, http)
    files = [f"{name}={path}" for name, path in models.items()]
    if peer.name == "kserve":
        options = [f"--grpc_port={grpc}", f"--http_port={http}", "--enable_latency_logging=false"]
        options += [f"--grpc_max_{way}_message_length={_MESSAGE_BYTES}" for way in ("send", "receive")]
        return [str(peer.python), str(_PROGRAMS / "kserve_server.py"), *options, *files]
    settings = {
        "debug": False,
        "host": "127.0.0.1",
        "grpc_port": grpc,
        "http_port": http,
        "metrics_port": metrics,
        "grpc_max_message_length": _MESSAGE_BYTES,
        "parallel_workers": 0,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    for name, path in models.items():
        _mlserver_model(folder, name, path)
    return [str(peer.python.parent / "mlserver"), "start", "."]


def _mlserver_model(folder: Path, name: str, path: Path) -> None:
    graph = onnx.load(path).graph
    settings = {
        "name": name,
        "implementation": "mlserver_runtime.OnnxModel",
        "parameters": {"uri": str(path), "extra": {"in_thread": name == "cnn"}},
        "inputs": [_described(tensor) for tensor in graph.input],
        "outputs": [_described(tensor) for tensor in graph.output],
    }
    (folder / name).mkdir()
    (folder / name / "model-settings.json").write_text(json.dumps(settings))


def _described(tensor: onnx.ValueInfoProto) -> dict[str, object]:
    shape = [axis.dim_value for axis in tensor.type.tensor_type.shape.dim]
    return {"name": tensor.name, "datatype": "FP32", "shape": shape}


def _await_models(process: subprocess.Popen[bytes], address: str, models: list[str], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with closing(GrpcConnection(address)) as connection:
        while True:
            try:
                if all(_is_ready(connection, model) for model in models):
                    return
            except BenchError as error:
                problem = str(error)
            else:
                problem = "not all models are ready"
            if process.poll() is not None:
                raise PeerError(f"the server ended with status {process.returncode}: {log.read_text()[-400:]}")
            if time.monotonic() > deadline:
                raise PeerError(f"the server does not serve within {_START_SECONDS:.0f} s: {problem}")
            time.sleep(0.2)


def _is_ready(connection: GrpcConnection, model: str) -> bool:
    return connection.call("ModelReady", wire.ModelReadyRequest(name=model), wire.ModelReadyResponse).ready


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the server, so that it can end its children; then kill what is left."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [own.getsockname()[1] for own in sockets]
    finally:
        for own in sockets:
            own.close()
