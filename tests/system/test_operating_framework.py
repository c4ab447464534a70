"""Views and changes of a framework process by an operator: runs, counts, events, devices, draining."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest
from onnx import helper

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, NnhalError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.remote.admin import FrameworkAdmin
from nnhal.types import ErrorStatus
from nnhal.v1 import admin_pb2
from nnhal_client import Framework, connect
from tests.support.model_server import Devices, Served, devices, model_server
from tests.support.onnx_models import onnx_model
from tests.support.operated import Beside, model_state, operator_of, standing, texts
from tests.support.processes import device_process
from tests.support.repositories import numbers, onnx_file, write
from tests.support.waiting import stop, wait_until

OVER_BOTH = onnx_model(
    [helper.make_node("Tanh", ["x"], ["h"], name="first"), helper.make_node("Neg", ["h"], ["y"], name="second")],
    {"x": (1, 8)},
    ["y"],
).SerializeToString()
PLACED = 'parameters: {key: "nnhal.placement" value: {string_value: "name:first=cpu_acc;name:second=cpu_ref"}}'
KEPT = f'{PLACED}\nparameters: {{key: "nnhal.fallback" value: {{string_value: "deny"}}}}'
WAITS = "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 600000000 }"
Phase = admin_pb2.ExecutionState


@pytest.fixture(scope="module")
def own_devices() -> Iterator[Devices]:
    with devices() as started:
        yield started


@pytest.fixture(scope="module")
def served(own_devices: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(repository, "split", {"1/model.onnx": OVER_BOTH, "config.pbtxt": PLACED})
    write(repository, "kept", {"1/model.onnx": OVER_BOTH, "config.pbtxt": KEPT})
    write(repository, "waits", {"1/model.onnx": onnx_file(), "config.pbtxt": WAITS})
    with model_server(own_devices, repository) as process:
        yield process


@pytest.fixture
def admin(served: Served) -> Iterator[FrameworkAdmin]:
    with operator_of(served) as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[Framework]:
    with connect(served.endpoint.directory) as session:
        yield session


def infer(served: Served, model: str, request_id: str = "") -> httpx.Response:
    given = {"name": "x", "shape": (1, 8), "datatype": "FP32", "data": numbers().reshape(-1).tolist()}
    message = {"id": request_id, "inputs": [given]}
    return httpx.post(f"http://{served.http}/v2/models/{model}/infer", json=message, timeout=60)


def last_number(admin: FrameworkAdmin) -> int:
    return max((run.number for run in admin.runs().finished), default=0)


def live(admin: FrameworkAdmin, model: str) -> list[admin_pb2.ExecutionState]:
    return list(admin.runs(model=model).live)


def refused(call: Callable[[], object]) -> HalError:
    with pytest.raises(HalError) as caught:
        call()
    return caught.value


def test_a_request_is_seen_when_it_has_ended(served: Served, admin: FrameworkAdmin) -> None:
    before = last_number(admin)
    assert infer(served, "split", "hello").status_code == 200
    (run,) = admin.runs(before, "split").finished
    assert (run.model, run.version, run.request_id, run.error) == ("split", "1", "hello", "")
    assert run.client.startswith("ipv4:127.0.0.1:")
    assert list(run.devices) == ["cpu_acc", "cpu_ref"]
    assert run.copied_bytes >= numbers().nbytes
    assert run.arrived_ns < run.arrived_ns + run.queue_ns + run.input_ns + run.infer_ns + run.output_ns <= run.ended_ns
    assert not run.HasField("report")


def test_a_request_that_fails_says_why(served: Served, admin: FrameworkAdmin) -> None:
    before = last_number(admin)
    message = {"inputs": [{"name": "x", "shape": (3,), "datatype": "FP32", "data": [1.0, 2.0, 3.0]}]}
    assert httpx.post(f"http://{served.http}/v2/models/tanh/infer", json=message).status_code == 400
    (run,) = admin.runs(before).finished
    assert run.model == "tanh" and "shape" in run.error


def test_counts_are_by_model_and_of_all(served: Served, admin: FrameworkAdmin) -> None:
    before, all_before = model_state(admin, "split").counts, admin.framework().counts
    for _ in range(3):
        infer(served, "split")
    after, all_after = model_state(admin, "split").counts, admin.framework().counts
    assert after.requests - before.requests == all_after.requests - all_before.requests == 3
    assert len(after.durations) == len(DURATION_BOUNDS_NS) + 1
    assert sum(after.durations) == after.requests
    assert sum(all_after.durations) == all_after.requests
    assert after.copied_bytes - before.copied_bytes >= 3 * numbers().nbytes
    assert after.duration_ns > before.duration_ns


def test_calls_that_are_refused_are_counted(served: Served, admin: FrameworkAdmin) -> None:
    def refused() -> dict[str, int]:
        return {each.reason: each.count for each in admin.framework().refused if each.client == "host: this one"}

    before = refused()
    for _ in range(3):
        assert infer(served, "nobody_knows_it").status_code == 404
    assert httpx.get(f"http://{served.http}/v2/models/nobody_knows_it").status_code == 404
    assert httpx.get(f"http://{served.http}/v3").status_code == 404
    with grpc.insecure_channel(served.grpc) as channel:
        for method, request in (
            ("ModelInfer", wire.ModelInferRequest(model_name="nobody_knows_it")),
            ("ModelMetadata", wire.ModelMetadataRequest(name="nobody_knows_it")),
        ):
            call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}", None, None)
            with pytest.raises(grpc.RpcError, match="nobody_knows_it"):
                call(request.SerializeToString(), timeout=60)
    after = refused()
    counted = {reason: more for reason, count in after.items() if (more := count - before.get(reason, 0))}
    assert counted == {"not found": 6, "not supported": 1}
    with httpx.Client(base_url=f"http://{served.http}") as client:
        assert client.post("/v2/models/tanh/infer", content=b"not json").status_code == 400
    assert refused()["malformed"] == before.get("malformed", 0) + 1


def test_runs_of_native_clients_count_and_are_seen_unless_they_are_direct(
    client: Framework, admin: FrameworkAdmin, tmp_path: Path
) -> None:
    path = tmp_path / "mine.onnx"
    path.write_bytes(onnx_file(shape=(1, 8)))
    before, number = admin.framework().counts.requests, last_number(admin)
    model = client.load(path, devices=["cpu_acc"])
    direct, through = model.bind(), model.bind(direct=False)
    direct.run()
    through.run()
    (run,) = admin.runs(number).finished
    assert run.version == "" and list(run.devices) == ["cpu_acc"] and "process" in run.client
    wait_until(lambda: admin.framework().counts.requests == before + 2, "the direct run is counted")
    (state,) = admin.framework().session_models
    assert (state.name, list(state.devices), state.bindings) == (run.model, ["cpu_acc"], 2)
    with client.open("split") as opened:
        opened.bind(direct=False).run()
        (run,) = admin.runs(run.number).finished
        assert (run.model, run.version) == ("split", "1")
    assert state.session in {session.id for session in admin.process().sessions}


def test_a_request_that_waits_is_seen_and_cancelled(served: Served, admin: FrameworkAdmin) -> None:
    request = Beside(partial(infer, served, "waits", "patient"))
    wait_until(lambda: bool(live(admin, "waits")), "the request is in the queue")
    (waiting,) = live(admin, "waits")
    assert (waiting.what, waiting.phase, waiting.request_id) == ("waits 1", Phase.PHASE_WAITING, "patient")
    assert waiting.can_be_cancelled and waiting.client.startswith("ipv4:") and waiting.deadline_ns == -1
    assert model_state(admin, "waits").queued == 1
    assert waiting.id in {execution.id for execution in admin.process().executions}
    before = last_number(admin)
    assert admin.cancel_execution(waiting.id)
    answer = request.result()
    assert answer.status_code != 200 and "cancelled" in answer.json()["error"]
    (run,) = admin.runs(before, "waits").finished
    assert "cancelled" in run.error
    assert "no execution" in refused(lambda: admin.cancel_execution(waiting.id)).message


def test_a_request_that_runs_is_cancelled_when_its_step_has_ended(
    served: Served, own_devices: Devices, admin: FrameworkAdmin
) -> None:
    infer(served, "tanh")
    stop(own_devices.pids["cpu_acc"])
    try:
        request = Beside(partial(infer, served, "tanh"))
        wait_until(lambda: any(each.phase == Phase.PHASE_RUNNING for each in live(admin, "tanh")), "it runs")
        (running,) = live(admin, "tanh")
        assert not admin.cancel_execution(running.id)
        assert live(admin, "tanh")
    finally:
        go_on(own_devices, "cpu_acc")
    assert "cancelled" in request.result().json()["error"]
    assert live(admin, "tanh") == []


def test_a_native_run_is_seen_and_cancelled_before_its_next_step(
    served: Served, own_devices: Devices, client: Framework, admin: FrameworkAdmin, tmp_path: Path
) -> None:
    path = tmp_path / "two.onnx"
    path.write_bytes(OVER_BOTH)
    model = client.load(path, pins={"name:first": "cpu_acc", "name:second": "cpu_ref"})
    binding = model.bind(measure_timing=True)
    binding.run()
    stop(own_devices.pids["cpu_acc"])
    try:
        run = Beside(binding.run)
        wait_until(lambda: bool(live(admin, model.name)), "it runs")
        (running,) = live(admin, model.name)
        assert running.phase == Phase.PHASE_RUNNING and running.session in running.id
        assert not admin.cancel_execution(running.id)
    finally:
        go_on(own_devices, "cpu_acc")
    error = refused(run.result)
    assert error.status == ErrorStatus.GENERAL_FAILURE and "was cancelled" in error.message
    binding.run()


def test_the_next_runs_are_recorded_with_their_steps(served: Served, client: Framework, admin: FrameworkAdmin) -> None:
    number = admin.record("split", 3)
    for _ in range(2):
        infer(served, "split")
    infer(served, "tanh")
    with client.open("split") as model:
        model.bind(direct=False).run()  # it does not measure
        model.bind(measure_timing=True).run()
    recording = admin.recording(number)
    assert (recording.left, recording.model, len(recording.runs)) == (0, "split", 3)
    for run in recording.runs:
        assert [step.device for step in run.report.steps] == ["cpu_acc", "cpu_ref"]
        assert all(step.started_ns > 0 for step in run.report.steps)
        assert run.report.ledger and run.recording == number
    infer(served, "split")
    assert len(admin.recording(number).runs) == 3
    assert [run.recording for run in admin.runs(model="split").finished][-1] == 0
    assert "expected 1 to 1000" in refused(lambda: admin.record("", 0)).message
    assert "no recording" in refused(lambda: admin.recording(number + 1)).message


def test_a_drained_device_is_planned_without_until_it_is_used_again(served: Served, admin: FrameworkAdmin) -> None:
    infer(served, "split")
    assert "split 1" in standing(admin, "cpu_acc").models
    left = admin.drain_device("cpu_acc")
    try:
        assert left == ["kept 1"]
        assert infer(served, "split").json()["parameters"]["nnhal_devices"] == "cpu_ref:2"
        assert infer(served, "kept").json()["parameters"]["nnhal_devices"] == "cpu_acc:1,cpu_ref:1"
        state = model_state(admin, "split")
        assert (list(state.devices), list(state.missing)) == (["cpu_ref"], ["cpu_acc"])
        drained = standing(admin, "cpu_acc")
        assert drained.draining and drained.available and "drains" in drained.reason
        with connect(served.endpoint.directory) as session:
            path = served.repository / "split/1/model.onnx"
            assert [step.device for step in session.load(path).explain().steps] == ["cpu_ref"]
    finally:
        admin.drain_device("cpu_acc", drain=False)
    assert list(model_state(admin, "split").devices) == ["cpu_acc", "cpu_ref"]
    assert infer(served, "split").json()["parameters"]["nnhal_devices"] == "cpu_acc:1,cpu_ref:1"
    assert not standing(admin, "cpu_acc").draining
    assert any("split is planned again without cpu_acc" in text for text in texts(admin, "replanned"))
    assert any("cpu_acc drains" in text and "kept 1" in text for text in texts(admin, "drained"))
    assert texts(admin, "back")[-1] == "device cpu_acc is used again"
    assert "no device 'npu'" in refused(lambda: admin.drain_device("npu")).message


def test_direct_runs_leave_a_drained_device(client: Framework, admin: FrameworkAdmin, tmp_path: Path) -> None:
    path = tmp_path / "tanh.onnx"
    path.write_bytes(onnx_file(shape=(1, 8)))
    model = client.load(path, pins={"op:TANH": "cpu_acc"})
    binding = model.bind()
    assert binding.run().direct
    admin.drain_device("cpu_acc")
    try:
        wait_until(lambda: not binding.run().direct, "the run channel is closed")
        assert model_devices(admin, model.name) == ["cpu_ref"]
    finally:
        admin.drain_device("cpu_acc", drain=False)
    np.testing.assert_array_equal(binding.outputs["y"], np.tanh(binding.inputs["x"]))


def test_a_device_is_added_and_removed(served: Served, admin: FrameworkAdmin, tmp_path: Path) -> None:
    with ExitStack() as stack:
        _, endpoint = stack.enter_context(device_process("cpu_acc", tmp_path))
        admin.add_device("third", str(endpoint.directory))
        found = standing(admin, "third")
        assert found.available and found.is_added and found.directory == str(endpoint.directory)
        with connect(served.endpoint.directory) as session:
            model = session.load(served.repository / "tanh/1/model.onnx", devices=["third", "cpu_ref"])
            binding = model.bind(direct=False)
            binding.run()
            assert model_devices(admin, model.name) == ["third"]
            assert "already" in refused(lambda: admin.add_device("third", str(endpoint.directory))).message
            admin.remove_device("third")
            binding.run()
            assert model_devices(admin, model.name) == ["cpu_ref"]
    assert "third" not in {device.name for device in admin.framework().devices}
    assert "was there at the start" in refused(lambda: admin.remove_device("cpu_acc")).message
    assert refused(lambda: admin.add_device("none", str(tmp_path / "none"))).status == ErrorStatus.DEVICE_UNAVAILABLE
    assert "absolute" in refused(lambda: admin.add_device("none", "none")).message


def test_models_that_come_and_go_are_events(served: Served, admin: FrameworkAdmin) -> None:
    write(served.repository, "fleeting", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(served.repository, "broken", {"1/model.onnx": "no model"})
    last = max((event.number for event in admin.framework().events), default=0)
    admin.load("fleeting")
    admin.unload("fleeting")
    with pytest.raises(NnhalError):
        admin.load("broken")
    admin.unload("broken")
    coming_and_going = ("loaded", "unloaded", "failed")
    events = [event for event in admin.framework(last).events if event.kind in coming_and_going]
    assert [(event.kind, event.subject) for event in events] == [
        ("loaded", "fleeting"),
        ("unloaded", "fleeting"),
        ("failed", "broken"),
    ]
    assert "cannot be loaded" in events[-1].text


def test_what_a_session_owns_is_listed_with_its_memory(
    served: Served, client: Framework, admin: FrameworkAdmin
) -> None:
    infer(served, "split")
    with client.open("split") as model:
        model.bind(direct=False).run()
        process = admin.process()
        (session,) = [s.id for s in process.sessions if any(o.kind == "binding" for o in s.objects)]
        counts = {o.kind: o.count for s in process.sessions if s.id == session for o in s.objects}
        assert counts == {"binding": 1, "open model": 1}
        pools = [pool for pool in process.pools if pool.session == session]
        assert {pool.kind for pool in pools} == {"ashmem", "arena"}
        assert all(pool.bytes > 0 and pool.memory and "of split" in pool.purpose for pool in pools)
        assert any(pool.purpose.startswith("an instance of") for pool in process.pools if not pool.session)


def test_a_framework_that_drains_ends_what_it_has_and_takes_nothing_new(
    served: Served, client: Framework, admin: FrameworkAdmin
) -> None:
    with client.open("tanh") as model:
        binding = model.bind()
        assert binding.run().direct
        waiting = Beside(partial(infer, served, "waits"))
        wait_until(lambda: bool(live(admin, "waits")), "the request is in the queue")
        admin.drain()
        try:
            assert waiting.result().status_code == 200  # it waits for no others any more
            assert admin.process().draining and not admin.framework().ready
            assert httpx.get(f"http://{served.http}/v2/health/ready").status_code != 200
            refusal = infer(served, "tanh")
            assert refusal.status_code == 503 and "drains" in refusal.json()["error"]
            assert refused(binding.run).status == ErrorStatus.DEVICE_UNAVAILABLE
            assert refused(model.bind).status == ErrorStatus.DEVICE_UNAVAILABLE
            assert refused(lambda: client.open("split")).status == ErrorStatus.DEVICE_UNAVAILABLE
            assert admin.drain() == 0
        finally:
            admin.drain(False)
        assert infer(served, "tanh").status_code == 200
        binding.run()
        assert admin.framework().ready
        assert texts(admin, "back")[-1] == "the framework takes work again"


def test_without_the_key_nothing_of_the_framework_is_told(served: Served) -> None:
    with FrameworkAdmin(served.endpoint) as stranger:
        for call in (
            stranger.framework,
            stranger.runs,
            lambda: stranger.record("", 1),
            lambda: stranger.drain_device("cpu_acc"),
            lambda: stranger.add_device("a", "/a"),
            lambda: stranger.remove_device("a"),
            stranger.drain,
        ):
            assert "only an operator may" in refused(call).message


def test_a_device_that_dies_is_lost_fallen_back_from_and_back(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    write(repository, "split", {"1/model.onnx": OVER_BOTH, "config.pbtxt": PLACED})
    with ExitStack() as stack:
        folder = tmp_path / "devices"
        reference, _ = stack.enter_context(device_process("cpu_ref", folder))
        dying, _ = stack.enter_context(device_process("cpu_acc", folder))
        both = {name: Endpoint(folder / name) for name in ("cpu_acc", "cpu_ref")}
        process = stack.enter_context(
            model_server(Devices(both, {"cpu_acc": dying.pid, "cpu_ref": reference.pid}), repository)
        )
        admin = stack.enter_context(operator_of(process))
        infer(process, "split")
        dying.stop()
        assert infer(process, "split").json()["parameters"]["nnhal_fell_back"]
        gone = standing(admin, "cpu_acc")
        assert not gone.available and gone.reason
        wait_until(lambda: list(model_state(admin, "split").missing) == ["cpu_acc"], "the model is planned without it")
        assert model_state(admin, "split").counts.fell_back == 1
        stack.enter_context(device_process("cpu_acc", folder))
        wait_until(lambda: standing(admin, "cpu_acc").available, "the device is back")
        wait_until(lambda: not model_state(admin, "split").missing, "the model runs by its own plan")
        assert any("cpu_acc" in text for text in texts(admin, "fell back"))
        kinds = [event.kind for event in admin.framework().events]
        for kind in ("lost", "fell back", "replanned", "back"):
            assert kind in kinds


def go_on(started: Devices, device: str) -> None:
    os.kill(started.pids[device], signal.SIGCONT)


def model_devices(admin: FrameworkAdmin, name: str) -> list[str]:
    (state,) = [state for state in admin.framework().session_models if state.name == name]
    return list(state.devices)
