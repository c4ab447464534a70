"""Clients whose calls never end: they keep nobody else from being answered, whichever process they call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from nnhal.endpoint import Endpoint
from nnhal.link import Link
from nnhal.remote.supervisor import SupervisorControl, supervisor_endpoint
from nnhal.v1 import device_pb2, device_pb2_grpc, framework_pb2, framework_pb2_grpc
from nnhal_hosting.supervision import Child
from tests.support.idle_calls import Open, half_sent, idle_calls, is_healthy, reflect, refused, watch

CALLS = 80
"""More than the process has threads for all clients together."""
STREAMS = 32
PATIENCE = 20.0
METHODS = {
    "device": "/nnhal.v1.DeviceService/GetType",
    "framework": "/nnhal.v1.FrameworkService/ListDevices",
    "supervisor": "/nnhal.v1.SupervisorService/ListProcesses",
}
pytestmark = pytest.mark.slow


class Serving(NamedTuple):
    """A testbed, which serves at three kinds of sockets."""

    directory: Path
    endpoints: dict[str, Endpoint]

    def ask(self, process: str) -> None:
        """Call a process in a session of its own. Raises what the client of a call that is not answered gets."""
        if process == "supervisor":
            with SupervisorControl(self.directory, patience=PATIENCE) as supervisor:
                assert supervisor.processes().processes
            return
        endpoint = self.endpoints[process]
        with Link(endpoint.link, "bystander") as link, grpc.insecure_channel(endpoint.address) as channel:
            if process == "device":
                device = device_pb2_grpc.DeviceServiceStub(channel)
                asked = device.GetVersionString(
                    device_pb2.GetVersionStringRequest(), metadata=link.metadata, timeout=PATIENCE
                )
                assert asked.version
            else:
                framework = framework_pb2_grpc.FrameworkServiceStub(channel)
                listed = framework.ListDevices(
                    framework_pb2.ListDevicesRequest(), metadata=link.metadata, timeout=PATIENCE
                )
                assert listed.devices


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    directory = tmp_path_factory.mktemp("up")
    child = Child("nnhal_tools", ["up", "--directory", str(directory), "--no-dashboard"])
    try:
        child.wait_until_ready()
        yield Serving(
            directory,
            {
                "device": Endpoint(directory / "cpu_ref"),
                "framework": Endpoint(directory / "framework", "framework"),
                "supervisor": supervisor_endpoint(directory),
            },
        )
    finally:
        child.stop()


def assert_all_are_answered(serving: Serving, process: str) -> None:
    serving.ask(process)
    assert is_healthy(serving.endpoints[process].address, PATIENCE)


@pytest.mark.parametrize("process", METHODS)
@pytest.mark.parametrize("open_call", [watch, reflect])
def test_streams_of_one_client_keep_nobody_waiting(serving: Serving, process: str, open_call: Open) -> None:
    with idle_calls(serving.endpoints[process].address, CALLS, open_call) as streams:
        said = refused(streams, CALLS - STREAMS)
        assert_all_are_answered(serving, process)
        assert {words.partition(" (")[0] for words in said} == {
            f"RESOURCE_EXHAUSTED: {STREAMS} streams are open, which is as many as may at a time"
        }
        assert sum(stream.done() for stream in streams) == CALLS - STREAMS


@pytest.mark.parametrize("process", METHODS)
@pytest.mark.parametrize("method", ["own", "Check", "Watch"])
def test_calls_without_their_message_keep_nobody_waiting(serving: Serving, process: str, method: str) -> None:
    names = {"Check": "/grpc.health.v1.Health/Check", "Watch": "/grpc.health.v1.Health/Watch"}
    open_call = half_sent(names.get(method, METHODS[process]))
    with idle_calls(serving.endpoints[process].address, CALLS, open_call):
        for _ in range(3):
            assert_all_are_answered(serving, process)


@pytest.mark.parametrize("process", METHODS)
def test_calls_of_sessions_without_their_message_hold_threads_of_these_sessions_only(
    serving: Serving, process: str
) -> None:
    endpoint = serving.endpoints[process]
    with ExitStack() as stack:
        for number in range(4):
            link = stack.enter_context(Link(endpoint.link, f"attacker {number}"))
            stack.enter_context(idle_calls(endpoint.address, CALLS, half_sent(METHODS[process], link.metadata)))
        assert_all_are_answered(serving, process)
