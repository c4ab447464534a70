"""Triton, MLServer and KServe: each in an environment of its own, started with the same ONNX files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import onnx
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from benchmarks.environments import environments_directory, interpreter

REQUIREMENTS = {
    "pytriton": ("nvidia-pytriton==0.7.0", "onnxruntime>=1.31,<2"),
    "mlserver": ("mlserver==1.7.1", "onnxruntime>=1.31,<2"),
    "kserve": ("kserve==0.21.0", "onnxruntime>=1.31,<2"),
}
"""The requirements of each peer, by the name of its module: pinned versions conflict with each other and with ours."""
_PROGRAMS = Path(__file__).parent / "servers"
_START_SECONDS = 90.0
_STOP_SECONDS = 15.0
_MESSAGE_BYTES = (1 << 31) - 1
_SHARED_BYTES = 64 << 20
"""Memory that a model and Triton share at the start; it grows."""


class PeerError(Exception):
    """A peer that cannot be started. The message says why."""


class Peer(NamedTuple):
    """A peer and the interpreter of its environment."""

    name: str
    python: Path


class PeerAddresses(NamedTuple):
    """The addresses of a peer, HOST:PORT, and the process that it was started as."""

    grpc: str
    http: str
    pid: int


@contextmanager
def peer_server(name: str, models: Mapping[str, Path], instances: int, directory: Path) -> Iterator[PeerAddresses]:
    """Run a peer's server until the context ends. Its output goes to DIRECTORY/NAME.log.

    Raises PeerError, and InstallationError if its environment cannot be made.
    """
    python = interpreter(environments_directory() / name, REQUIREMENTS[name], (name, "onnxruntime"))
    peer, ports, folder = Peer(name, python), _free_ports(3), directory / name
    folder.mkdir(parents=True)
    command = _command(peer, models, instances, folder, *ports)
    log = directory / f"{name}.log"
    try:
        with _running(command, folder, _environment(peer), log) as process:
            addresses = PeerAddresses(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}", process.pid)
            _await_models(process, addresses.grpc, list(models), log)
            yield addresses
    finally:
        for path in Path("/dev/shm").glob(f"{_shared_memory_prefix(folder)}*"):
            path.unlink(missing_ok=True)


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
    libraries = _triton_libraries(peer) if peer.name == "pytriton" else []
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
        return _triton_command(peer, models, instances, folder, grpc, http)
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
    deadline, problem = time.monotonic() + _START_SECONDS, "not all models are ready"
    with tritonclient.grpc.InferenceServerClient(address) as client:
        while time.monotonic() < deadline:
            try:
                if all(client.is_model_ready(model) for model in models):
                    return
            except InferenceServerException as error:
                problem = str(error)
            if process.poll() is not None:
                raise PeerError(f"the server ended with status {process.returncode}: {log.read_text()[-400:]}")
            time.sleep(0.2)
    raise PeerError(f"the server does not serve within {_START_SECONDS:.0f} s: {problem}")


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


def _triton_command(
    peer: Peer, models: Mapping[str, Path], instances: int, folder: Path, grpc: int, http: int
) -> list[str]:
    """Write a repository and a backend to FOLDER, and return the command of their server. Raises OSError."""
    package = _packages(peer) / "pytriton" / "tritonserver"
    backends, repository = folder / "backends", folder / "models"
    shutil.copytree(package / "backends", backends)
    version = sysconfig.get_python_version()
    shutil.copy(package / "python_backend_stubs" / version / "triton_python_backend_stub", backends / "python")
    for name, path in models.items():
        (repository / name / "1").mkdir(parents=True)
        shutil.copy(_PROGRAMS / "triton_model.py", repository / name / "1" / "model.py")
        (repository / name / "config.pbtxt").write_text("\n".join(_configuration(name, path, instances)))
    return [
        str(package / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        *(f"--{protocol}-address=127.0.0.1" for protocol in ("grpc", "http")),
        f"--grpc-port={grpc}",
        f"--http-port={http}",
        "--allow-metrics=false",
        f"--backend-config=python,shm-region-prefix-name={_shared_memory_prefix(folder)}",
        f"--backend-config=python,shm-default-byte-size={_SHARED_BYTES}",
    ]


def _triton_libraries(peer: Peer) -> list[str]:
    """Return the directories of shared libraries that the server needs: its own, and that of the peer's interpreter."""
    return [str(_packages(peer) / "nvidia_pytriton.libs"), str(sysconfig.get_config_var("LIBDIR"))]


def _shared_memory_prefix(folder: Path) -> str:
    """Return the beginning of the names that the server gives its files in /dev/shm."""
    return f"{folder.parent.parent.name}-"


def _packages(peer: Peer) -> Path:
    (packages,) = peer.python.parent.parent.glob("lib/python*/site-packages")
    return packages


def _configuration(name: str, path: Path, instances: int) -> Iterator[str]:
    graph = onnx.load(path).graph
    yield f'name: "{name}"'
    yield 'backend: "python"'
    yield "max_batch_size: 0"
    for kind, tensors in (("input", graph.input), ("output", graph.output)):
        for tensor in tensors:
            shape = [axis.dim_value for axis in tensor.type.tensor_type.shape.dim]
            yield f'{kind} {{ name: "{tensor.name}" data_type: TYPE_FP32 dims: {shape} }}'
    yield f"instance_group {{ count: {instances} kind: KIND_CPU }}"
    yield f'parameters {{ key: "file" value {{ string_value: "{path}" }} }}'
