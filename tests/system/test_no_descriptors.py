"""Processes whose descriptors are all taken: who is connected is served on, and nobody is taken for dead."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np
import psutil
import pytest

from nnhal.endpoint import Endpoint
from nnhal.link import Link
from nnhal.remote.supervisor import SupervisorControl
from nnhal_client import connect
from nnhal_hosting.asking import Unhealthy, require_grpc, require_page
from nnhal_hosting.processor_time import ProcessorTime
from tests.support.command import command
from tests.support.front_workers import Connection
from tests.support.held_device import NAME, held_device
from tests.support.model_server import Devices, Served, model_server
from tests.support.operated import Beside
from tests.support.process_limits import descriptor_limit
from tests.support.processes import device_process
from tests.support.repositories import numbers, onnx_file, write
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
CONFIG = f'parameters {{ key: "nnhal.placement" value {{ string_value: "name:node={NAME}" }} }}'
SECONDS = 60.0
PAUSE = Event()
TOPOLOGY = """
[[device]]
driver = "cpu_ref"
[framework]
model_repository = ["{models}"]
front_workers = 2
http_port = 0
grpc_port = 0
metrics_port = 0
"""
MODULES = {
    "device": "nnhal_devices",
    "framework": "nnhal_service",
    "front worker": "nnhal_service.front_workers",
    "dashboard": "nnhal_dashboard",
}
SERVING = {"link-acceptor", "link-clients", "rpc-shares", "listener-watch"}
LASTING = {
    "front worker": {"front-peer", "front-report", "listener-watch", "serving-loop"},
    "device": SERVING | {"watchdog"},
    "framework": SERVING | {"serving-loop", "front-peer", "watch-front 0"},
    "dashboard": {"collector", "listener-watch", "pages"},
    "supervisor": SERVING | {"watch-cpu_ref", "watch-framework", "watch-dashboard"},
}
"""The threads without which a process is not what it was, by its kind."""


def infer(connection: Connection) -> None:
    """Run the model over a connection, and check the answer."""
    status, answer = connection.infer()
    assert status == 200, answer
    np.testing.assert_allclose(answer["outputs"][0]["data"], np.tanh(numbers()).reshape(-1), atol=1e-6)


def threads(pid: int) -> dict[int, str]:
    """The threads of a process, and their names, which the kernel cuts to 15 bytes."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[int(task.name)] = (task / "comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
    return found


def test_a_framework_without_descriptors_takes_no_device_for_one_that_hangs(short_path: Path, tmp_path: Path) -> None:
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file(), "config.pbtxt": CONFIG})
    with held_device(short_path) as device, device_process("cpu_ref", short_path) as (_, reference):
        over = Devices({NAME: device.endpoint, "cpu_ref": reference}, {})
        with (
            model_server(over, tmp_path, "--front-workers", "1", "--hang-secs", "0.2") as served,
            closing(Connection(served.http)) as connection,
        ):
            first = Beside(lambda: infer(connection))
            device.next().let_go()
            first.result()
            asking: set[int] = set()

            def is_asked() -> bool:
                asking.update(threads(served.pid).keys() - before.keys())
                return len(asking) >= 6  # each time, two threads begin, which have no descriptor for their names

            with descriptor_limit(0, served.pid):
                second = Beside(lambda: infer(connection))
                execution = device.next()
                before = threads(served.pid)
                wait_until(is_asked, "the device is asked whether it answers", SECONDS)
                execution.let_go()
                second.result()
            device.hold_no_more()
            infer(connection)
            assert "a device hangs" not in served.child.said()


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    write(folder, "tanh", {"1/model.onnx": onnx_file()})
    with model_server(device_processes, folder, "--front-workers", "1") as process:
        yield process


def test_a_framework_without_descriptors_serves_who_is_connected_and_then_who_has_waited(
    served: Served, tmp_path: Path
) -> None:
    file = tmp_path / "closed.onnx"
    file.write_bytes(onnx_file(shape=numbers().shape))
    endpoint = Endpoint(served.endpoint.directory, "framework")
    with (
        closing(Connection(served.http)) as connection,
        connect(endpoint.directory) as framework,
        framework.load(file).bind() as binding,
    ):
        infer(connection)
        binding.inputs["x"][:] = numbers()
        binding.run()
        with descriptor_limit(0, served.pid):
            with pytest.raises(Unhealthy, match=r"closes the connection|reset by peer"):  # libuv accepts, and closes
                require_page(f"http://{served.http}/v2/health/live", SECONDS)
            # A descriptor that was just given back may let it in: then it is refused in HTTP/2.
            with pytest.raises(Unhealthy, match=r"closes the connection|reset by peer|answers without a status"):
                require_grpc(served.grpc, False, SECONDS)
            waiting = [
                Beside(lambda: require_grpc(endpoint.address, False, SECONDS)),
                Beside(lambda: Link(endpoint.link, "late", SECONDS).close()),
            ]
            for _ in range(10):
                infer(connection)
                binding.run()
                np.testing.assert_allclose(binding.outputs["y"], np.tanh(numbers()), atol=1e-6)
            assert share_used(served.pid) < 0.5  # those who wait to be accepted keep nobody busy
        for each in waiting:
            each.result()
        require_page(f"http://{served.http}/v2/health/live", SECONDS)
        require_grpc(served.grpc, False, SECONDS)


def share_used(pid: int) -> float:
    """Return which share of a processor a process takes, by a second that passes."""
    before, elapsed, clock = processor_seconds(pid), 0.0, ProcessorTime()
    while elapsed < 1.0:
        PAUSE.wait(0.1)
        elapsed += clock.passed()
    return (processor_seconds(pid) - before) / elapsed


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_testbed(directory: Path, models: Path) -> Iterator[dict[str, int]]:
    """Run 'nnhal up' with a process of each kind; yields a process of each."""
    topology = directory / "bed.toml"
    topology.write_text(TOPOLOGY.format(models=models))
    words = ["up", str(topology), "--directory", str(directory), "--dashboard-port", "0"]
    with subprocess.Popen(command(words), stderr=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stderr is not None
        try:
            lines = iter(supervisor.stderr)
            assert any("ready:" in line for line in lines)
            Beside(lambda: list(lines))  # so that what it says has room
            wait_until(lambda: processes_of(supervisor.pid).keys() == LASTING.keys(), "all processes run", SECONDS)
            yield processes_of(supervisor.pid)
        finally:
            supervisor.terminate()


def processes_of(supervisor: int) -> dict[str, int]:
    """A process of each kind of a testbed."""
    found = {"supervisor": supervisor}
    for process in psutil.Process(supervisor).children(recursive=True):
        words = " ".join(process.cmdline())
        found.update({kind: process.pid for kind, module in MODULES.items() if f"-m {module} " in words})
    return found


def test_no_thread_that_is_to_last_ends_for_want_of_descriptors(short_path: Path, tmp_path: Path) -> None:
    write(tmp_path, "tanh", {"1/model.onnx": onnx_file()})
    with running_testbed(short_path, tmp_path) as processes:
        wait_until(lambda: not missing(processes), f"the threads have begun: {missing(processes)}", SECONDS)
        with ExitStack() as stack:
            for pid in processes.values():
                stack.enter_context(descriptor_limit(0, pid))
            waiting = [
                Beside(partial(Link, short_path / name / "link.sock", "late", SECONDS))
                for name in ("cpu_ref", "framework", "supervisor")
            ]
            with ThreadPoolExecutor(len(processes)) as pool:  # each has its second without descriptors
                list(pool.map(share_used, processes.values()))
        for each in waiting:
            each.result().close()
        assert not missing(processes)
        with SupervisorControl(short_path) as supervisor:
            assert [process.restarts for process in supervisor.processes().processes] == [0, 0, 0]


def missing(processes: dict[str, int]) -> dict[str, set[str]]:
    """The threads that are not there, by the kind of their process."""
    there = {kind: set(threads(pid).values()) for kind, pid in processes.items()}
    found = {kind: {name for name in names if name[:15] not in there[kind]} for kind, names in LASTING.items()}
    return {kind: names for kind, names in found.items() if names}
