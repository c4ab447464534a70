"""Several processes that serve the ports of one framework: whichever has a connection, its answers are the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
import tritonclient.grpc
import tritonclient.utils.shared_memory as shm
from onnx import helper

from nnhal.remote.admin import FrameworkAdmin
from nnhal_service.serving import ErrorKind
from nnhal_service.v2.http.statuses import STATUS
from tests.support.certificates import authority, signed
from tests.support.front_workers import Connection, each, refuses, workers_of
from tests.support.model_server import Devices, Served, addresses, devices, model_server
from tests.support.onnx_models import onnx_model
from tests.support.operated import Beside
from tests.support.repositories import numbers, onnx_file, write
from tests.support.resources import Resources, resources_of
from tests.support.scrape import Scrape
from tests.support.tokens import bearer, token_file
from tests.support.tritonclients import input_of
from tests.support.waiting import settled, stop, wait_for_death, wait_until

NOT_FOUND, UNAVAILABLE = STATUS[ErrorKind.NOT_FOUND], STATUS[ErrorKind.UNAVAILABLE]
WORKERS = ("--front-workers", "2")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    write(folder, "tanh", {"1/model.onnx": onnx_file()})
    find = onnx_model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [2, 1000]}, ["y"])
    write(folder, "find", {"1/model.onnx": find.SerializeToString()})
    return folder


@pytest.fixture(scope="module")
def served(device_processes: Devices, repository: Path) -> Iterator[Served]:
    with model_server(device_processes, repository, *WORKERS, "--allow-client-shm") as process:
        yield process


@pytest.fixture
def connections(served: Served) -> Iterator[list[Connection]]:
    with each(served) as found:
        yield list(found.values())


def outputs(answer: tuple[int, object]) -> list[float]:
    status, content = answer
    assert status == 200, content
    assert isinstance(content, dict)
    data: list[float] = content["outputs"][0]["data"]
    return data


def statistics(connection: Connection) -> Counter[str]:
    status, content = connection.ask("/v2/models/tanh/stats")
    assert status == 200
    (of_model,) = content["model_stats"]
    counts = {"inferences": of_model["inference_count"], "executions": of_model["execution_count"]}
    states = {name: of_model["inference_stats"][name]["count"] for name in ("success", "fail", "compute_infer")}
    return Counter(
        {**counts, **states, "batches": sum(batch["compute_infer"]["count"] for batch in of_model["batch_stats"])}
    )


def metrics(served: Served) -> Scrape:
    return Scrape(httpx.get(f"http://{addresses(served.child)['metrics']}/metrics").content)


def test_every_worker_serves_both_protocols(served: Served, connections: list[Connection]) -> None:
    expected = np.tanh(numbers()).reshape(-1)
    for connection in connections:
        np.testing.assert_allclose(outputs(connection.infer()), expected, rtol=1e-5)
    for _ in range(8):
        with tritonclient.grpc.InferenceServerClient(
            served.grpc, channel_args=[("grpc.use_local_subchannel_pool", 1)]
        ) as client:
            answer = client.infer("tanh", [input_of(tritonclient.grpc, "x", numbers())])
            np.testing.assert_allclose(answer.as_numpy("y").reshape(-1), expected, rtol=1e-5)


def test_outputs_of_unknown_sizes_come_from_the_devices_without_the_framework(
    served: Served, connections: list[Connection]
) -> None:
    connection = connections[0]

    def run(count: int) -> None:
        x = np.zeros((2, 1000), np.float32)
        x.flat[:count] = 1
        given = {"name": "x", "shape": x.shape, "datatype": "FP32", "data": x.reshape(-1).tolist()}
        status, answer = connection.ask("/v2/models/find/infer", {"inputs": [given]})
        assert status == 200, answer
        (output,) = answer["outputs"]
        assert output["shape"] == [2, count]
        np.testing.assert_array_equal(np.reshape(output["data"], (2, count)), np.stack(np.nonzero(x)))

    for count in (3, 2000, 7, 0):
        run(count)
    stop(served.pid)
    try:
        for count in (3, 3, 0, 1999):
            run(count)
    finally:
        os.kill(served.pid, signal.SIGCONT)
    run(4)


def test_statistics_and_metrics_are_sums_as_soon_as_a_request_is_answered(
    served: Served, connections: list[Connection]
) -> None:
    before = statistics(connections[0])
    success = metrics(served).of("nv_inference_request_success", {"model": "tanh", "version": "1"})
    runs = metrics(served).sum("nnhal_partition_runs", {"model": "tanh", "version": "1"})
    for number in range(1, 6):
        for connection in connections:
            outputs(connection.infer())
        assert connections[0].ask("/v2/models/tanh/infer", {"inputs": []})[0] == 400
        for connection in connections:
            more = statistics(connection)
            more.subtract(before)
            done = len(connections) * number
            names = ("inferences", "executions", "success", "compute_infer", "batches")
            assert more == {**dict.fromkeys(names, done), "fail": number}
    scrape = metrics(served)
    assert scrape.of("nv_inference_request_success", {"model": "tanh", "version": "1"}) - success == 10
    assert scrape.sum("nnhal_partition_runs", {"model": "tanh", "version": "1"}) - runs == 10


def test_what_one_worker_loads_and_unloads_all_workers_serve_or_refuse_at_once(
    served: Served, connections: list[Connection], repository: Path
) -> None:
    first, second = connections
    x = numbers().reshape(-1)
    for operation, function in (("Neg", np.negative), ("Abs", np.abs), ("Neg", np.negative)):
        write(repository, "changing", {"1/model.onnx": onnx_file(operation)})
        assert first.ask("/v2/repository/models/changing/load", {}) == (200, {})
        for connection in connections:
            np.testing.assert_allclose(outputs(connection.infer("changing")), function(x), rtol=1e-6)
    write(repository, "changing", {"2/model.onnx": onnx_file("Exp")})
    assert second.ask("/v2/repository/models/changing/load", {}) == (200, {})
    for connection in connections:
        status, answer = connection.infer("changing")
        assert (status, answer["model_version"]) == (200, "2")
    assert second.ask("/v2/repository/models/changing/unload", {}) == (200, {})
    for connection in connections:
        status, answer = connection.infer("changing")
        assert status == UNAVAILABLE
        assert "not at ready state" in answer["error"]
        assert connection.infer("nothing")[0] == NOT_FOUND


def test_a_model_takes_its_metrics_with_it_and_begins_anew(
    served: Served, connections: list[Connection], repository: Path
) -> None:
    """Return whether or not somebody has asked for metrics meanwhile."""
    write(repository, "counted", {"1/model.onnx": onnx_file("Abs")})
    labels = {"model": "counted", "version": "1"}
    for asks in (True, False):
        for connection in connections:
            assert connection.ask("/v2/repository/models/counted/load", {}) == (200, {})
            assert connection.infer("counted")[0] == 200
            if asks:
                counts = (metrics(served).sum(n, labels) for n in ("nv_inference_count", "nnhal_partition_runs"))
                assert [*counts] == [1, 1]
            assert connection.ask("/v2/repository/models/counted/unload", {}) == (200, {})
            if asks:
                told = [line for line in metrics(served).text.splitlines() if '"counted"' in line]
                assert [line.partition("}")[0] for line in told] == [
                    'nnhal_last_event_seconds{kind="unloaded",subject="counted"'
                ]
    assert connections[0].ask("/v2/repository/models/counted/load", {}) == (200, {})
    assert connections[0].infer("counted")[0] == 200
    counts = (metrics(served).sum(name, labels) for name in ("nv_inference_count", "nnhal_partition_runs"))
    assert [*counts] == [1, 1]


def test_requests_in_flight_end_before_their_model_is_unloaded(
    served: Served, connections: list[Connection], repository: Path
) -> None:
    first, second = connections
    write(repository, "leaving", {"1/model.onnx": onnx_file()})
    assert first.ask("/v2/repository/models/leaving/load", {}) == (200, {})
    seen: Counter[int] = Counter()
    unloaded = threading.Event()

    def run() -> None:
        while True:
            began_after = unloaded.is_set()
            status, answer = second.infer("leaving")
            seen[status] += 1
            if status != 200:
                assert "not at ready state" in answer["error"]
                return
            assert not began_after

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: seen[200] > 20, "requests run")
    assert first.ask("/v2/repository/models/leaving/unload", {}) == (200, {})
    unloaded.set()
    thread.join()
    assert sum(seen.values()) - seen[200] == 1


def test_models_that_come_and_go_leave_nothing_behind(
    served: Served, connections: list[Connection], repository: Path, device_processes: Devices
) -> None:
    write(repository, "passing", {"1/model.onnx": onnx_file()})
    processes = [served.pid, *workers_of(served.child), device_processes.pids["cpu_acc"]]
    held: list[list[Resources]] = []
    for _ in range(6):
        assert connections[0].ask("/v2/repository/models/passing/load", {}) == (200, {})
        for connection in connections:
            outputs(connection.infer("passing"))
        assert connections[1].ask("/v2/repository/models/passing/unload", {}) == (200, {})
        held.append([settled(partial(resources_of, pid)) for pid in processes])
    for before, after in zip(held[1], held[5], strict=True):
        assert after.within(before, 1)


def test_a_region_that_was_registered_with_one_worker_is_used_by_all(
    served: Served, connections: list[Connection]
) -> None:
    key, size = f"nnhal_fronts_{os.getpid()}", numbers().nbytes
    region = shm.create_shared_memory_region("mine", key, 2 * size, create_only=True)
    try:
        shm.set_shared_memory_region(region, [numbers()])
        path = "/v2/systemsharedmemory/region/mine"
        assert connections[0].ask(f"{path}/register", {"key": key, "offset": 0, "byte_size": 2 * size})[0] == 200

        def parameters(offset: int) -> dict[str, object]:
            place = {"shared_memory_region": "mine", "shared_memory_byte_size": size, "shared_memory_offset": offset}
            return {"parameters": place}

        given = {"name": "x", "shape": numbers().shape, "datatype": "FP32", **parameters(0)}
        request = {"inputs": [given], "outputs": [{"name": "y", **parameters(size)}]}
        for connection in connections:
            assert connection.ask("/v2/models/tanh/infer", request)[0] == 200
            found = shm.get_contents_as_numpy(region, np.float32, [numbers().size], size)
            np.testing.assert_allclose(found, np.tanh(numbers()).reshape(-1), rtol=1e-5)
        assert [r["name"] for r in connections[1].ask("/v2/systemsharedmemory/status")[1]] == ["mine"]
        assert connections[1].ask(f"{path}/unregister", {})[0] == 200
        for connection in connections:
            status, answer = connection.ask("/v2/models/tanh/infer", request)
            assert status != 200
            assert "Unable to find" in answer["error"]
    finally:
        shm.destroy_shared_memory_region(region)


def test_a_worker_that_is_killed_is_started_again_and_leaves_nothing(served: Served, repository: Path) -> None:
    held: list[Resources] = []
    for _ in range(4):  # each of both has been started again once before the last but one
        workers = workers_of(served.child)
        with each(served) as connections:
            for connection in connections.values():
                outputs(connection.infer())
            held.append(settled(lambda: resources_of(served.pid)))
            victim, other = connections
            counted = statistics(connections[other])
            os.kill(victim, signal.SIGKILL)
            wait_for_death(victim)
            with pytest.raises(OSError):
                connections[victim].infer()
            for _ in range(10):
                outputs(connections[other].infer())
            assert statistics(connections[other])["success"] == counted["success"] + 10
        wait_until(lambda: len(workers_of(served.child)) == 2, "it is started again")
        assert workers_of(served.child) & workers == {other}
    assert held[3].within(held[2])


def _lives(worker: int) -> bool:
    return psutil.Process(worker).status() != psutil.STATUS_ZOMBIE


def test_a_request_that_is_asked_while_no_worker_lives_waits_for_the_next_one(served: Served) -> None:
    workers = workers_of(served.child)
    (zygote,) = {psutil.Process(worker).ppid() for worker in workers}
    stop(zygote)  # so that none is started before there is a request
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not any(map(_lives, workers)), "both have ended")
    expected = np.tanh(numbers()).reshape(-1)
    x = [input_of(tritonclient.grpc, "x", numbers())]
    with (
        closing(Connection(served.http)) as connection,
        tritonclient.grpc.InferenceServerClient(
            served.grpc, channel_args=[("grpc.use_local_subchannel_pool", 1)]
        ) as client,
    ):
        asked, over_grpc = Beside(connection.infer), Beside(partial(client.infer, "tanh", x))
        os.kill(zygote, signal.SIGCONT)
        np.testing.assert_allclose(outputs(asked.result()), expected, rtol=1e-5)
        np.testing.assert_allclose(over_grpc.result().as_numpy("y").reshape(-1), expected, rtol=1e-5)
    wait_until(lambda: len(workers_of(served.child)) == 2, "both are started again")
    assert {psutil.Process(worker).ppid() for worker in workers_of(served.child)} == {zygote}


def test_without_ngh2_the_framework_itself_serves_grpc(
    device_processes: Devices, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ngh2.py").write_text("raise ImportError('not for this platform')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    expected = np.tanh(numbers()).reshape(-1)
    with model_server(device_processes, repository, *WORKERS, zygote=None) as process:
        with each(process) as found:
            for connection in found.values():
                np.testing.assert_allclose(outputs(connection.infer()), expected, rtol=1e-5)
        with tritonclient.grpc.InferenceServerClient(process.grpc) as client:
            answer = client.infer("tanh", [input_of(tritonclient.grpc, "x", numbers())])
            np.testing.assert_allclose(answer.as_numpy("y").reshape(-1), expected, rtol=1e-5)
            workers = workers_of(process.child)
            for pid in workers:
                stop(pid)
            try:
                assert client.is_server_live()
            finally:
                for pid in workers:
                    os.kill(pid, signal.SIGCONT)


def has_moved(connection: Connection) -> bool:
    devices: str = connection.infer()[1]["parameters"]["nnhal_devices"]
    return devices == "cpu_ref:1"


def test_a_device_that_dies_is_replaced_by_the_cpu(repository: Path) -> None:
    with devices() as over, model_server(over, repository, *WORKERS) as process, ExitStack() as stack:
        connections = stack.enter_context(each(process))
        for connection in connections.values():
            assert connection.infer()[1]["parameters"]["nnhal_devices"] == "cpu_acc:1"
        os.kill(over.pids["cpu_acc"], signal.SIGKILL)
        expected = np.tanh(numbers()).reshape(-1)
        for _ in range(3):
            for connection in connections.values():
                np.testing.assert_allclose(outputs(connection.infer()), expected, rtol=1e-5)
        for connection in connections.values():
            wait_until(partial(has_moved, connection), "the plan is one for the devices that are left")


def test_the_workers_of_a_framework_that_is_killed_end(device_processes: Devices, repository: Path) -> None:
    with model_server(device_processes, repository, *WORKERS) as process:
        workers = workers_of(process.child)
        assert len(workers) == 2
        os.kill(process.pid, signal.SIGKILL)
        for pid in workers:
            wait_for_death(pid)
        assert refuses(process)


def test_an_orderly_end_ends_the_workers(device_processes: Devices, repository: Path) -> None:
    with model_server(device_processes, repository, *WORKERS) as process:
        workers = workers_of(process.child)
        assert process.child.stop(60) == 0
        for pid in workers:
            wait_for_death(pid)
        assert refuses(process)


def test_a_port_that_another_server_shares_is_refused(device_processes: Devices, repository: Path) -> None:
    with model_server(device_processes, repository, *WORKERS) as process:
        port = str(process.port)
        with (
            pytest.raises(Exception, match="in use"),
            model_server(device_processes, repository, *WORKERS, "--http-port", port),
        ):
            raise AssertionError("it serves")


@pytest.fixture(scope="module")
def split(repository: Path) -> Path:
    """A repository with a model whose two operations are for different devices."""
    nodes = [helper.make_node(kind, [x], [y], name=kind) for kind, x, y in (("Tanh", "x", "h"), ("Neg", "h", "y"))]
    pins = 'parameters { key: "nnhal.placement" value { string_value: "name:Tanh=cpu_acc; name:Neg=cpu_ref" } }'
    model = onnx_model(nodes, {"x": ("n", 8)}, ["y"]).SerializeToString()
    write(repository, "split", {"1/model.onnx": model, "config.pbtxt": pins})
    return repository


def test_a_plan_of_several_steps_and_a_measured_run(device_processes: Devices, split: Path, tmp_path: Path) -> None:
    traces = ("--trace-directory", str(tmp_path), "--trace-config", "trace_file=all.json")
    with model_server(device_processes, split, *WORKERS, *traces) as process, each(process) as connections:
        first, second = connections.values()
        expected = -np.tanh(numbers()).reshape(-1)

        def run(connection: Connection) -> None:
            answer = connection.infer("split")
            np.testing.assert_allclose(outputs(answer), expected, rtol=1e-5)
            assert answer[1]["parameters"]["nnhal_devices"] == "cpu_acc:1,cpu_ref:1"

        run(first)
        wanted = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "3"}
        assert first.ask("/v2/models/split/trace/setting", wanted)[0] == 200
        for connection in (first, second, first, second):
            run(connection)
        wait_until((tmp_path / "all.json").exists, "the traces of all workers are written")
        found = json.loads((tmp_path / "all.json").read_text())
        assert len({trace["id"] for trace in found if "id" in trace}) == 3
        assert second.ask("/v2/models/split/trace/setting")[1]["trace_count"] == "0"


def has_said(process: Served, text: str) -> bool:
    return text in process.child.said()


def test_what_is_logged_is_changed_for_all_workers(device_processes: Devices, repository: Path) -> None:
    with model_server(device_processes, repository, *WORKERS) as process, each(process) as connections:
        first, second = connections.values()
        assert first.ask("/v2/logging", {"log_verbose_level": 1})[1]["log_verbose_level"] == 1
        assert second.ask("/v2/logging")[1]["log_verbose_level"] == 1
        for number, connection in enumerate((first, second)):
            connection.infer(request_id=f"request-{number}")
            wait_until(partial(has_said, process, f"request-{number}"), "the request is logged")
        with FrameworkAdmin(process.endpoint, process.child.admin_key) as operator:
            operator.set_log_level("error")
        for connection in (first, second):
            assert {"log_verbose_level": 0, "log_warning": False}.items() <= connection.ask("/v2/logging")[1].items()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_every_worker_speaks_tls(device_processes: Devices, repository: Path, tmp_path: Path) -> None:
    known = authority(tmp_path, "known")
    mine = signed(tmp_path, "server", known)
    options = ("--tls-certificate", str(mine.certificate), "--tls-key", str(mine.key))
    with model_server(device_processes, repository, *WORKERS, *options) as secure:
        context = ssl.create_default_context(cafile=known.certificate)
        for _ in range(8):
            with httpx.Client(base_url=f"https://{secure.http}", verify=context) as client:
                assert client.get("/v2/models/tanh/ready").status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://{secure.http}/v2/health/live")


def test_tokens_rates_and_limits_are_one_for_all_workers(
    device_processes: Devices, repository: Path, tmp_path: Path
) -> None:
    tokens = str(token_file(tmp_path, ci="infer", boss="admin"))
    limits = ("--tokens", tokens, "--rate-limit", "8", "--http-max-connections", "6")
    with model_server(device_processes, repository, *WORKERS, *limits) as process, ExitStack() as stack:
        connections = list(stack.enter_context(each(process)).values())
        for connection in connections:
            assert connection.infer()[0] == 401
            assert connection.infer(**bearer("ci"))[0] == 200
            assert connection.ask("/v2/repository/models/tanh/load", {}, **bearer("ci"))[0] == 403
        answers = [connection.infer(**bearer("boss"))[0] for _ in range(10) for connection in connections]
        assert set(answers) == {200, 429}
        address = ("127.0.0.1", process.port)
        held = [stack.enter_context(socket.create_connection(address, 60)) for _ in range(4)]
        for end in held:
            end.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert end.recv(65536).startswith(b"HTTP/1.1 200 ")
        with socket.create_connection(address, 60) as seventh:
            assert seventh.recv(65536).startswith(b"HTTP/1.1 503 ")
