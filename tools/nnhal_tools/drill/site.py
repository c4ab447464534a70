"""The testbed of a drill: two devices here, one behind a wire, and a model for each."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.errors import general_failure
from nnhal.remote.supervisor import SupervisorControl
from nnhal.v1 import supervisor_pb2
from nnhal_hosting.supervision import Child
from nnhal_tools.demo.digits import MODELS, data
from nnhal_tools.drill.cut_wire import CutWire
from nnhal_tools.up import Testbed
from nnhal_tools.up.control import controlled
from nnhal_tools.up.topology import DeviceEntry, Topology

FAR = "far"
"""The device behind the wire."""
LOCAL = ("cpu_acc", "cpu_ref")
_CONFIG = 'parameters {{ key: "nnhal.placement" value {{ string_value: "name:*={}" }} }}'
_ADDRESS = "wire: "
_STARTING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DrillSite:
    """A testbed that runs. Each device has a model of its name, which runs on it while it is there."""

    supervisor: SupervisorControl
    wire: CutWire
    """Between the framework's host and that of FAR."""
    address: str
    """HOST:PORT of the framework."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that serve, which are called as the devices are."""
        return (*LOCAL, FAR)

    def process(self, name: str) -> supervisor_pb2.SupervisedProcess:
        """What the supervisor says of a process."""
        return next(each for each in self.supervisor.processes().processes if each.name == name)

    def await_other(self, name: str, pid: int) -> None:
        """Wait until a process serves again, as another one than ``pid``. Raises GENERAL_FAILURE."""
        pause = threading.Event()
        for _ in range(int(_STARTING_SECONDS / 0.05)):
            process = self.process(name)
            if process.state == process.STATE_RUNNING and process.pid != pid:
                return
            pause.wait(0.05)
        general_failure(f"{name} does not serve again after {_STARTING_SECONDS:.0f} s")

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[DrillSite]:
        """Start it in a temporary folder; it ends with the context. Raises StartError."""
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
            wire = stack.enter_context(CutWire(stack.enter_context(_far_device(directory / "there"))))
            address = f"127.0.0.1:{_free_port()}"
            topology = Topology(
                device=(
                    *(DeviceEntry(driver=name) for name in LOCAL),
                    DeviceEntry(driver="remote", name=FAR, endpoint=f"tcp://{wire.address}"),
                ),
                framework={
                    "model_repository": (str(_repository(directory / "models")),),
                    "http_port": int(address.rpartition(":")[2]),
                    "grpc_port": 0,
                    "metrics_port": 0,
                },
            )
            testbed = Testbed(topology, directory / "here")
            stack.enter_context(controlled(testbed))
            yield cls(stack.enter_context(SupervisorControl(directory / "here")), wire, address)


@contextmanager
def _far_device(directory: Path) -> Iterator[str]:
    """Run a device that listens for other hosts; yields its address."""
    told = threading.Event()
    lines: list[str] = []

    def hear(line: str) -> None:
        if line.startswith(_ADDRESS):
            lines.append(line.removeprefix(_ADDRESS).strip())
            told.set()

    words = ["cpu_ref", "--endpoint", str(Endpoint(directory).directory), "--listen", "127.0.0.1:0"]
    child = Child("nnhal_devices", words, heard=hear)
    try:
        child.wait_until_ready()
        told.wait(_STARTING_SECONDS)
        yield lines[0]
    finally:
        child.stop()


def _repository(directory: Path) -> Path:
    for name in (*LOCAL, FAR):
        (directory / name / "1").mkdir(parents=True)
        (directory / name / "1" / "model.onnx").write_bytes(data(MODELS["float32"]).read_bytes())
        (directory / name / "config.pbtxt").write_text(_CONFIG.format(name))
    return directory


def _free_port() -> int:
    """A port that stays the same when the framework is started again."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port: int = reserved.getsockname()[1]
        return port
