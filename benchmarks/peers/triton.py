"""Triton's own server, from pytriton's package: its front in C++ and its Python backend, without pytriton's proxy."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx

from benchmarks.peers.environments import Peer

_MODEL = Path(__file__).parent / "servers" / "triton_model.py"
_SHARED_BYTES = 64 << 20
"""Memory that a model and the server share at the start; it grows."""


def triton_command(
    peer: Peer, models: Mapping[str, Path], instances: int, folder: Path, grpc: int, http: int
) -> list[str]:
    """The command of a server of these models. Writes its repository and its backend to FOLDER. Raises OSError."""
    package = _packages(peer) / "pytriton" / "tritonserver"
    backends, repository = folder / "backends", folder / "models"
    shutil.copytree(package / "backends", backends)
    version = sysconfig.get_python_version()
    shutil.copy(package / "python_backend_stubs" / version / "triton_python_backend_stub", backends / "python")
    for name, path in models.items():
        (repository / name / "1").mkdir(parents=True)
        shutil.copy(_MODEL, repository / name / "1" / "model.py")
        (repository / name / "config.pbtxt").write_text("\n".join(_configuration(name, path, instances)))
    return [
        str(package / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        *(f"--{protocol}-address=127.0.0.1" for protocol in ("grpc", "http")),
        f"--grpc-port={grpc}",
        f"--http-port={http}",
        "--allow-metrics=false",
        f"--backend-config=python,shm-region-prefix-name={shared_memory_prefix(folder)}",
        f"--backend-config=python,shm-default-byte-size={_SHARED_BYTES}",
    ]


def triton_libraries(peer: Peer) -> list[str]:
    """The directories of shared libraries that the server needs: its own, and that of the peer's interpreter."""
    return [str(_packages(peer) / "nvidia_pytriton.libs"), str(sysconfig.get_config_var("LIBDIR"))]


def shared_memory_prefix(folder: Path) -> str:
    """The beginning of the names that the server gives its files in /dev/shm."""
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
