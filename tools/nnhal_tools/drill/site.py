"""The testbed of a drill: two devices here, one behind a wire, a model for each, and a dashboard."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError, general_failure
from nnhal.remote.supervisor import SupervisorControl
from nnhal.v1 import supervisor_pb2
from nnhal_hosting.restarted_process import RestartedProcess, RestartState
from nnhal_hosting.supervision import Child
from nnhal_tools.demo.digits import MODELS, data
from nnhal_tools.drill.cut_wire import CutWire
from nnhal_tools.operate.operator_session import OperatorSession
from nnhal_tools.up import Testbed
from nnhal_tools.up.control import controlled
from nnhal_tools.up.topology import DeviceEntry, Topology

FAR = "far"
"""The device behind the wire."""
LOCAL = ("cpu_acc", "cpu_ref")
_CONFIG = 'parameters {{ key: "nnhal.placement" value {{ string_value: "name:*={}" }} }}'
_STARTING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DrillSite:
    """A testbed that runs. Each device has a model of its name, which runs on it while it is there."""

    supervisor: SupervisorControl
    wire: CutWire
    """Between the framework's host and that of FAR."""
    address: str
    """HOST:PORT of the framework."""
    directory: Path
    """Where the processes of this host have their sockets."""
    far_host: RestartedProcess
    """What serves FAR at the other end of the wire."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that serve, which are called as the devices are."""
        return (*LOCAL, FAR)

    def process(self, name: str) -> supervisor_pb2.SupervisedProcess:
        """Return the supervisor's view of a process."""
        return next(each for each in self.supervisor.processes().processes if each.name == name)

    def await_other(self, name: str, pid: int) -> None:
        """Wait until a process serves again, as another one than ``pid``. Raises GENERAL_FAILURE."""

        def serves() -> bool:
            process = self.process(name)
            return process.state == process.STATE_RUNNING and process.pid != pid

        _await(serves, name)

    def await_other_far(self, pid: int) -> None:
        """Wait until the other host serves again, by another process than ``pid``. Raises GENERAL_FAILURE."""
        far = self.far_host
        _await(lambda: far.state is RestartState.RUNNING and far.child.pid != pid, f"the host of {FAR}")

    def await_whole(self) -> None:
        """Wait until each model runs on its own device again. Raises GENERAL_FAILURE."""
        _await(self._is_whole, "a device that a model is to run on")

    def _is_whole(self) -> bool:
        try:
            with OperatorSession(self.directory) as operator:
                models = operator.contacts.framework().framework().models
        except NnhalError:  # the framework starts
            return False
        return {model.name for model in models if list(model.devices) == [model.name]} == set(self.models)

    @classmethod
    @contextmanager
    def open(cls, front_workers: int = 0) -> Iterator[DrillSite]:
        """Start it in a temporary folder; it ends with the context. Raises StartError.

        ``front_workers`` serve HTTP for the framework; 0 has it serve by itself.
        """
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
            far_address = f"127.0.0.1:{_free_port()}"
            far_host = stack.enter_context(_far_device(directory / "there", far_address))
            wire = stack.enter_context(CutWire(far_address))
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
                    **({"front_workers": front_workers} if front_workers else {}),
                },
            ).shown(0)
            here = directory / "here"
            stack.enter_context(controlled(Testbed(topology, here)))
            yield cls(stack.enter_context(SupervisorControl(here)), wire, address, here, far_host)


@contextmanager
def _far_device(directory: Path, address: str) -> Iterator[RestartedProcess]:
    """Run a device that listens for other hosts, at HOST:PORT, and start it again when it dies, as its host does."""
    words = ["cpu_ref", "--endpoint", str(Endpoint(directory).directory), "--listen", address]
    far = RestartedProcess(FAR, lambda: Child("nnhal_devices", words))
    try:
        far.keep(_STARTING_SECONDS)
        yield far
    finally:
        far.leave().stop()


def _await(has_come: Callable[[], bool], name: str) -> None:
    pause = threading.Event()
    for _ in range(int(_STARTING_SECONDS / 0.05)):
        if has_come():
            return
        pause.wait(0.05)
    general_failure(f"{name} does not serve again after {_STARTING_SECONDS:.0f} s")


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
