"""Views of an operator on requests that front workers serve."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from nnhal.remote.admin import FrameworkAdmin
from nnhal.v1 import admin_pb2
from tests.support.front_workers import Connection, each
from tests.support.model_server import Devices, Served, model_server
from tests.support.operated import Beside, operator_of
from tests.support.repositories import onnx_file, write
from tests.support.waiting import settled, wait_until

MANY = 20
"""Runs after which there may be a plan for the dimensions of their inputs."""
WAITS = "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 600000000 }"


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = tmp_path_factory.mktemp("operated")
    write(repository, "tanh", {"1/model.onnx": onnx_file()})
    write(repository, "waits", {"1/model.onnx": onnx_file(), "config.pbtxt": WAITS})
    with model_server(device_processes, repository, "--front-workers", "2") as process:
        yield process


@pytest.fixture
def admin(served: Served) -> Iterator[FrameworkAdmin]:
    with operator_of(served) as found:
        yield found


@pytest.fixture
def connections(served: Served) -> Iterator[list[Connection]]:
    with each(served) as found:
        yield list(found.values())


def test_requests_of_all_workers_are_listed_in_the_order_of_their_ends(
    admin: FrameworkAdmin, connections: list[Connection]
) -> None:
    before = max((run.number for run in admin.runs().finished), default=0)
    for number, connection in enumerate(connections * 2):
        assert connection.infer(request_id=f"request {number}")[0] == 200
    runs = admin.runs(before).finished
    assert [run.request_id for run in runs] == [f"request {number}" for number in range(4)]
    assert [run.number for run in runs] == [before + 1, before + 2, before + 3, before + 4]
    assert {run.client for run in runs} == {f"ipv4:127.0.0.1:{connection.port}" for connection in connections}
    assert all(run.infer_ns > 0 and list(run.devices) == ["cpu_acc"] for run in runs)


def test_durations_of_all_workers_are_counted(admin: FrameworkAdmin, connections: list[Connection]) -> None:
    def counted() -> tuple[int, int]:
        counts = admin.framework().counts
        return counts.requests, sum(counts.durations)

    before, _ = settled(counted)  # workers report from time to time
    for connection in connections:
        connection.infer()
    wait_until(lambda: counted() == (before + 2, before + 2), "the workers have reported")


def test_calls_that_workers_refuse_are_counted(admin: FrameworkAdmin, connections: list[Connection]) -> None:
    def refused() -> int:
        return sum(each.count for each in admin.framework().refused if each.reason == "not found")

    before = refused()
    for connection in connections:
        assert connection.infer("nobody_knows_it")[0] == 404
    wait_until(lambda: refused() == before + 2, "the workers have reported")


def test_a_request_that_waits_in_a_worker_is_cancelled(admin: FrameworkAdmin, connections: list[Connection]) -> None:
    requests = [Beside(partial(connection.infer, "waits", f"of {n}")) for n, connection in enumerate(connections)]
    wait_until(lambda: len(admin.runs().live) == 2, "both requests are in queues")
    waiting = admin.runs(model="waits").live
    assert {state.request_id for state in waiting} == {"of 0", "of 1"}
    assert all(state.phase == admin_pb2.ExecutionState.PHASE_WAITING for state in waiting)
    assert len({state.id for state in waiting}) == 2
    assert [admin.cancel_execution(state.id) for state in waiting] == [True, True]
    for request in requests:
        status, answer = request.result()
        assert status != 200 and "cancelled" in answer["error"]
    assert not admin.runs().live


def test_the_next_runs_of_all_workers_are_recorded(admin: FrameworkAdmin, connections: list[Connection]) -> None:
    number = admin.record("", 4)
    for connection in connections * 3:
        connection.infer()
    wait_until(lambda: admin.recording(number).left == 0, "the workers have handed over what they recorded")
    recorded = admin.recording(number).runs
    assert len(recorded) == 4
    assert {run.client for run in recorded} == {f"ipv4:127.0.0.1:{connection.port}" for connection in connections}
    assert all([step.device for step in run.report.steps] == ["cpu_acc"] for run in recorded)


def test_all_workers_drain(admin: FrameworkAdmin, connections: list[Connection]) -> None:
    admin.drain()
    try:
        for connection in connections:
            status, answer = connection.infer()
            assert status == 503 and "drains" in answer["error"]
            assert connection.ask("/v2/health/ready")[0] != 200
    finally:
        admin.drain(False)
    for connection in connections:
        assert connection.infer()[0] == 200


def test_runs_of_workers_leave_a_drained_device(admin: FrameworkAdmin, connections: list[Connection]) -> None:
    def devices() -> set[str]:
        return {connection.infer()[1]["parameters"]["nnhal_devices"] for connection in connections}

    assert devices() == {"cpu_acc:1"}
    assert admin.drain_device("cpu_acc") == []
    try:
        wait_until(lambda: devices() == {"cpu_ref:1"}, "the workers follow the new plan")
        for _ in range(MANY):  # a plan for these dimensions would be worth its preparation by now
            assert devices() == {"cpu_ref:1"}
    finally:
        admin.drain_device("cpu_acc", drain=False)
    wait_until(lambda: devices() == {"cpu_acc:1"}, "the workers follow the old plan again")
