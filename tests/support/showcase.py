"""A testbed as ``nnhal up`` starts it, with models and a dashboard, for tests that look at it from outside."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.remote.supervisor import SupervisorControl
from nnhal.v1 import supervisor_pb2
from tests.support.command import command
from tests.support.ports import free_port
from tests.support.waiting import wait_until

DEVICES = ("ethos_u", "cpu_acc", "cpu_ref")
MODELS = ("digits", "digits_int8")
DEMO = Path(__file__).parents[2] / "tools/nnhal_tools/demo/data"
_READY = ("dashboard: http", "http: ", "grpc: ", "ready: ")
_LOADING_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Showcase:
    """A testbed that runs."""

    directory: Path
    dashboard: str
    """The dashboard's address, such as ``http://127.0.0.1:8003``; it stays the same when the dashboard is restarted."""
    http: str
    """The framework's HTTP port, with its host."""
    pid: int
    """The process ``nnhal up``."""
    supervisor: SupervisorControl

    def process(self, name: str) -> supervisor_pb2.SupervisedProcess:
        return next(process for process in self.supervisor.processes().processes if process.name == name)

    def runs(self, name: str, other_than: int = 0) -> bool:
        """Return whether a process serves, as another process than one that was."""
        process = self.process(name)
        return process.state == process.STATE_RUNNING and process.pid != other_than


@contextmanager
def showcase(
    extra_models: Mapping[str, bytes] | None = None,
    more: Sequence[str] = (),
    front_workers: int = 1,
) -> Iterator[Showcase]:
    """Run ``nnhal up`` until the context ends. ``extra_models`` are names and ONNX files besides the demo's, ``more``
    are further options.
    """
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        directory = Path(name)
        networks = {model: (DEMO / f"{model}.onnx").read_bytes() for model in MODELS} | dict(extra_models or {})
        for model, network in networks.items():
            folder = directory / "models" / model / "1"
            folder.mkdir(parents=True)
            (folder / "model.onnx").write_bytes(network)
        topology = directory / "topology.toml"
        topology.write_text(_topology(directory / "models", front_workers))
        options = ["up", str(topology), "--directory", str(directory / "run"), "--dashboard-port", str(free_port())]
        options += more
        log = directory / "log"
        with log.open("wb") as output, subprocess.Popen(command(options), stderr=output, stdout=output) as process:
            try:
                told = _told(log, process)
                with SupervisorControl(directory / "run") as supervisor:
                    yield Showcase(directory / "run", told["dashboard"], told["http"], process.pid, supervisor)
            finally:
                process.terminate()
                process.wait()


def _topology(models: Path, front_workers: int) -> str:
    devices = "".join(f'[[device]]\ndriver = "{driver}"\n' for driver in DEVICES)
    ports = f"http_port = 0\ngrpc_port = 0\nmetrics_port = 0\nfront_workers = {front_workers}\n"
    return f'{devices}[framework]\nmodel_repository = ["{models}"]\n{ports}'


def _told(log: Path, process: subprocess.Popen[bytes]) -> dict[str, str]:
    """Wait until everything serves, and return the addresses that were printed."""

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        text = log.read_text()
        return all(re.search(f"^{word}", text, re.MULTILINE) for word in _READY)

    wait_until(is_ready, "nnhal up is ready", _LOADING_SECONDS)
    return dict(re.findall(r"^(dashboard|http): (\S+)$", log.read_text(), re.MULTILINE))
