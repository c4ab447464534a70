"""A framework over devices, or a server of models, in processes of their own, and the processor time that they take."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import onnx

from nnhal.remote.supervisor import SupervisorControl
from nnhal_client import Framework, connect
from nnhal_hosting.logs import configure_logs
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.control import controlled

_SERVING_DEVICE = "cpu_acc"
_MOST_INPUT_BYTES = 1 << 30


class ServedModels(NamedTuple):
    """A server that runs."""

    http: str
    """HOST:PORT, as ``grpc``."""
    grpc: str
    directory: Path
    """The framework's."""
    files: Mapping[str, Path]
    """Those of its models by their names."""
    pids: tuple[int, ...]
    """The framework and the device."""


@contextmanager
def serving(
    models: Mapping[str, onnx.ModelProto], instances: int = 1, front_workers: int | None = None
) -> Iterator[ServedModels]:
    """Serve models on cpu_acc; ``instances`` runs of each go on at once. Raises StartError."""
    configure_logs("supervisor", "warning", as_json=False)
    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        repository, files = Path(folder) / "models", {}
        for name, model in models.items():
            files[name] = repository / name / "1" / "model.onnx"
            files[name].parent.mkdir(parents=True)
            onnx.save(model, files[name])
            (repository / name / "config.pbtxt").write_text(f"instance_group {{ count: {instances} }}\n")
        settings: dict[str, bool | int | tuple[str, ...]] = {
            "model_repository": (str(repository),),
            **dict.fromkeys(("http_port", "grpc_port", "metrics_port"), 0),
            "allow_client_shm": True,
            "http_max_input_size": _MOST_INPUT_BYTES,
        }
        if front_workers is not None:
            settings["front_workers"] = front_workers
        topology = Topology(device=(DeviceEntry(driver=_SERVING_DEVICE, workers=instances),), framework=settings)
        testbed = Testbed(topology, Path(folder) / "run")
        with controlled(testbed), SupervisorControl(Path(folder) / "run") as supervisor:
            processes = supervisor.processes().processes
            addresses = dict(line.split(": ", 1) for each in processes for line in each.addresses)
            http, grpc = (addresses[protocol].removeprefix("http://") for protocol in ("http", "grpc"))
            yield ServedModels(http, grpc, testbed.framework, files, tuple(each.pid for each in processes))


@contextmanager
def framework_over(*devices: DeviceEntry, settings: Mapping[str, str] | None = None) -> Iterator[Framework]:
    """Run a framework over devices, and open a session with it; ``settings`` are the framework's own."""
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        Testbed(Topology(device=devices, framework=settings or {}), Path(directory)) as bed,
        connect(bed.framework) as framework,
    ):
        yield framework


def processes_of(framework: Framework) -> list[int]:
    """Return the processes that share in what this one asks of a framework: this one, it, and its devices."""
    return [os.getpid(), framework.calls.peer_pid, *(device.pid for device in framework.devices())]


def processor_ns(pids: Iterable[int]) -> int:
    """Return the processor time of the threads that some processes have, nanoseconds."""
    return sum(_scheduled_ns(task) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir())


def _scheduled_ns(task: Path) -> int:
    try:
        return int((task / "schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):  # the thread has ended
        return 0
