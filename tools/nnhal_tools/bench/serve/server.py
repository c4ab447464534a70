"""A server with a small model, for measurements without a server of the user's."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child, StartError
from nnhal_tools.bench.serve.target import Transport

SMALL = "small"
DEVICE = "cpu_acc"
MOST_INSTANCES = 4
"""More runs at a time than these say nothing more about a server of one machine."""
_FLOATS = 256
_ANNOUNCED_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class BenchServer:
    """A server that runs."""

    urls: Mapping[Transport, str]
    """Its address by transport."""
    models: Mapping[str, Path]
    """The files of its models by their names."""
    processes: Mapping[str, int]
    """The ids of its processes: ``framework``, and each device by its name."""
    traces: Path
    """The directory to which it writes traces of requests."""


def small_model() -> onnx.ModelProto:
    """y = relu(x) of 1 KiB: nearly all of the time is that of the transport."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, _FLOATS]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], SMALL, tensors[:1], tensors[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@contextmanager
def serving(
    models: Mapping[str, onnx.ModelProto], instances: int = 1, options: Sequence[str] = ()
) -> Iterator[BenchServer]:
    """Serve models on cpu_acc over every transport until the context ends. Raises StartError.

    ``instances`` is how many runs of a model may go on at once; ``options`` are further ones of the framework.
    """
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name, ExitStack() as stack:
        root = Path(name)
        files = {title: _write(root / "models" / title, model, instances) for title, model in models.items()}
        traces = root / "traces"
        traces.mkdir()
        device, framework = Endpoint(root / "device"), Endpoint(root / "framework", "framework")
        acc = Child("nnhal_devices", [DEVICE, "--endpoint", str(device.directory), "--workers", str(instances)])
        stack.callback(acc.stop)
        acc.wait_until_ready()
        service = Child(
            "nnhal_service",
            [
                f"--endpoint={framework.directory}",
                f"--device={DEVICE}={device.directory}",
                f"--model-repository={root / 'models'}",
                "--http-port=0",
                "--grpc-port=0",
                "--metrics-port=0",
                "--allow-client-shm",
                f"--http-max-input-size={1 << 30}",
                f"--trace-directory={traces}",
                *options,
            ],
        )
        stack.callback(service.stop)
        service.wait_until_ready()
        urls = {transport: _announced(service, str(transport)) for transport in (Transport.GRPC, Transport.HTTP)}
        urls[Transport.NATIVE] = str(framework.directory)
        yield BenchServer(urls, files, {"framework": service.pid, DEVICE: acc.pid}, traces)


def _write(folder: Path, model: onnx.ModelProto, instances: int) -> Path:
    path = folder / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(model, path)
    (folder / "config.pbtxt").write_text(f"instance_group {{ count: {instances} }}\n")
    return path


def _announced(service: Child, protocol: str) -> str:
    """The address that the server has printed. Raises StartError if it printed none."""
    deadline = time.monotonic() + _ANNOUNCED_SECONDS
    while time.monotonic() < deadline:
        found = re.search(rf"^{protocol}: (\S+)$", service.said(), re.MULTILINE)
        if found:
            return found[1]
        time.sleep(0.01)  # the output was written, but may not have been read yet
    raise StartError(f"the framework printed no address of {protocol}")
