"""A server that is used well and badly at once answers rightly, and keeps nothing of it.

NNHAL_SOAK_SECONDS says how long.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from nnhal.arrays import Array
from nnhal_client import connect
from tests.support.caching import held_under
from tests.support.killed_clients import region_client
from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import numbers, onnx_file, write
from tests.support.resources import Resources, resident_bytes, resources_of, threads_of
from tests.support.served_models import write_models
from tests.support.tritonclients import Triton, status_of
from tests.support.waiting import settled

Infer = Callable[[Array], Array]
SIDE = 96
"""The size of the matrices that ``powers`` gets from clients which cancel."""
COMING = "comes_and_goes"
_HTTP = b"POST /v2/models/tanh/infer HTTP/1.1\r\nHost: localhost\r\n"
_PROTOCOL_ERRORS = {"INVALID_ARGUMENT", "NOT_FOUND", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"}
"""The statuses that a client which misbehaves may get."""


def reload_models(served: Served) -> None:
    """Reload the models and run each once, since earlier requests determine how many instances a model keeps."""
    given = {"tanh": np.zeros((1, 8), np.float32), "echo_fp32": np.zeros((4, 4), np.float32)}
    given["powers"] = np.eye(SIDE, dtype=np.float32)
    with Triton("grpc", tritonclient.grpc, served.grpc) as client:
        for model, array in given.items():
            client.client.unload_model(model)
            client.client.load_model(model)
            client.infer(model, {"x": array})


def behave(served: Served, seconds: float) -> None:
    """Have clients of four kinds send one request after the other, and check each answer."""

    def work(client: Callable[[Served], AbstractContextManager[Infer]]) -> None:
        with client(served) as infer:
            number, end = 0, time.monotonic() + seconds
            while number < _LEAST or time.monotonic() < end:
                given = np.add(numbers(), number % 100, dtype=np.float32)
                np.testing.assert_allclose(infer(given), np.tanh(given), atol=1e-5)
                number += 1

    with ThreadPoolExecutor(len(_CLIENTS)) as pool:
        list(pool.map(work, _CLIENTS))


@contextmanager
def _over(api: ModuleType, served: Served) -> Iterator[Infer]:
    name = api.__name__.rpartition(".")[2]
    with Triton(name, api, getattr(served, name)) as client:
        yield lambda given: client.infer("tanh", {"x": given}).as_numpy("y")


@contextmanager
def _over_shared_memory(served: Served) -> Iterator[Infer]:
    """Use gRPC, with a region for the input and the output."""
    size, key = numbers().nbytes, f"nnhal_good_{time.monotonic_ns()}"
    region = shm.create_shared_memory_region("good", key, 2 * size, create_only=True)
    try:
        with Triton("grpc", tritonclient.grpc, served.grpc) as client:
            client.client.register_system_shared_memory("good", key, 2 * size)
            tensor = tritonclient.grpc.InferInput("x", list(numbers().shape), "FP32")
            tensor.set_shared_memory("good", size)
            wanted = tritonclient.grpc.InferRequestedOutput("y")
            wanted.set_shared_memory("good", size, size)

            def infer(given: Array) -> Array:
                shm.set_shared_memory_region(region, [given])
                client.client.infer("tanh", [tensor], outputs=[wanted])
                answer: Array = shm.get_contents_as_numpy(region, np.float32, list(given.shape), size)
                return answer

            yield infer
            client.client.unregister_system_shared_memory("good")
    finally:
        shm.destroy_shared_memory_region(region)


@contextmanager
def _natively(served: Served) -> Iterator[Infer]:
    with connect(served.endpoint.directory) as framework:
        model = framework.open("tanh")
        yield lambda given: np.asarray(model.run({"x": given})["y"])


_CLIENTS = (partial(_over, tritonclient.grpc), partial(_over, tritonclient.http), _over_shared_memory, _natively)
_LEAST = 20
"""Requests of each client, however slow the machine is."""


@contextmanager
def misbehaving(served: Served, pause: float = 0.02) -> Iterator[None]:
    """Run clients that misbehave, with pauses, until the context ends. Raises if one gets an unexpected answer."""
    write(served.repository, COMING, {"1/model.onnx": onnx_file("Neg")})
    ending = threading.Event()

    def go_on(step: Callable[[Served, random.Random], None]) -> None:
        source = random.Random(step.__name__)
        try:
            while not ending.wait(pause):
                step(served, source)
        except BaseException:
            ending.set()
            raise

    steps = (
        _send_garbage,
        _ask_for_nonsense,
        _cancel,
        _truncate_a_region,
        _die,
        _load_and_unload,
        _leave_a_stream,
    )
    with ThreadPoolExecutor(len(steps)) as pool:
        work = [pool.submit(go_on, step) for step in steps]
        try:
            yield
        finally:
            ending.set()
    for step in work:
        step.result()


@contextmanager
def _refused(*more: str) -> Iterator[None]:
    try:
        yield
    except InferenceServerException as error:
        if status_of(error) not in {*_PROTOCOL_ERRORS, *more}:
            raise


def _client(served: Served) -> Triton:
    return Triton("grpc", tritonclient.grpc, served.grpc)


def _send_garbage(served: Served, source: random.Random) -> None:
    """Send bytes that are not a request, and halves of requests, to both ports."""
    with ExitStack() as stack:
        for address in (served.http, served.grpc):
            host, _, port = address.rpartition(":")
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            half = source.choice((_HTTP, _HTTP + b"Content-Length: 100\r\n\r\n{", source.randbytes(200), b"PRI * HT"))
            connection.sendall(half)
            if source.random() < 0.5:  # leave with a reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _ask_for_nonsense(served: Served, source: random.Random) -> None:
    """Request unknown models, and shapes and types that models do not take."""
    with _client(served) as client:
        for _ in range(10):
            model = source.choice(("unknown", "tanh", "pair", COMING))
            given = np.zeros((source.randint(1, 12), source.randint(1, 12)), source.choice((np.float32, np.int8)))
            with _refused():
                client.infer(model, {"x": given})


def _cancel(served: Served, source: random.Random) -> None:
    """Cancel requests that take long after a short timeout."""
    with _client(served) as client:
        for _ in range(3):
            with _refused():
                client.infer(
                    "powers", {"x": np.eye(SIDE, dtype=np.float32)}, client_timeout=source.uniform(0.001, 0.02)
                )


def _truncate_a_region(served: Served, source: random.Random) -> None:
    """Truncate shared memory while it is used."""
    key = f"nnhal_soak_{os.getpid()}_{source.getrandbits(32)}"
    made = shm.create_shared_memory_region("mine", key, 128, create_only=True)
    try:
        with _client(served) as client:
            client.client.register_system_shared_memory("mine", key, 128)
            tensor = tritonclient.grpc.InferInput("x", [4, 4], "FP32")
            tensor.set_shared_memory("mine", 64)
            wanted = tritonclient.grpc.InferRequestedOutput("y")
            wanted.set_shared_memory("mine", 64, 64)
            for size in (128, 100, 0, 128):
                os.truncate(f"/dev/shm/{key}", size)
                with _refused():
                    client.client.infer("echo_fp32", [tensor], outputs=[wanted])
            client.client.unregister_system_shared_memory("mine")
    finally:
        shm.destroy_shared_memory_region(made)


def _die(served: Served, source: random.Random) -> None:
    """Kill a process that has shared memory and requests."""
    key = f"nnhal_soak_{os.getpid()}_{source.getrandbits(32)}"
    with region_client(served.grpc, key):
        pass


def _load_and_unload(served: Served, source: random.Random) -> None:
    with _client(served) as client:
        client.client.load_model(COMING)
        given = numbers()
        if not np.array_equal(client.infer(COMING, {"x": given}).as_numpy("y"), -given):
            raise AssertionError(f"a wrong answer of {COMING}")
        client.client.unload_model(COMING)


def _leave_a_stream(served: Served, source: random.Random) -> None:
    with _client(served) as client:
        client.client.start_stream(lambda result, error: None)  # noqa: ARG005
        for _ in range(source.randint(1, 20)):
            with _refused():
                client.client.async_stream_infer("tanh", client.inputs({"x": numbers()}))
        client.client.stop_stream(cancel_requests=True)


SECONDS = float(os.environ.get("NNHAL_SOAK_SECONDS", "4"))
SLACK_BYTES = 48 << 20
"""What allocators and pools of threads may keep, however long it takes."""
SLACK_DESCRIPTORS = 24
"""Connections that have not ended yet."""
SLACK_MAPPINGS = 4
"""Memory of instances, of which a model keeps as many as have been needed at a time."""
SPARE_THREADS = 8
"""What pools of threads may still come to, which make theirs when all others are busy."""
ROUNDS = 40
ROUNDS_SLACK_BYTES = 4 << 20
"""Bytes that may be left of 40 models, of which each would leave some 100 KiB."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 2 * SECONDS)]


@pytest.fixture
def fresh(device_processes: Devices, tmp_path: Path) -> Iterator[Served]:
    with model_server(device_processes, write_models(tmp_path), "--allow-client-shm") as process:
        yield process


def held(pids: list[int]) -> list[Resources]:
    """Descriptors and mappings, when nothing changes any more."""
    return settled(lambda: [resources_of(pid) for pid in pids])


def test_good_and_bad_clients_together_are_served_rightly_and_leave_nothing(
    fresh: Served, device_processes: Devices
) -> None:
    pids = [fresh.pid, *device_processes.pids.values()]
    with misbehaving(fresh):
        behave(fresh, SECONDS)
    reload_models(fresh)
    before = held(pids)
    memory = [resident_bytes(pid) for pid in pids]
    with misbehaving(fresh):
        behave(fresh, SECONDS)
    reload_models(fresh)
    for now, then in zip(held(pids), before, strict=True):
        assert now.memfd_mappings < then.memfd_mappings + SLACK_MAPPINGS
        assert sum(now.descriptors.values()) < sum(then.descriptors.values()) + SLACK_DESCRIPTORS
    assert held_under(Path("/dev/shm"), fresh.pid) == []
    for pid, then_bytes in zip(pids, memory, strict=True):
        assert resident_bytes(pid) < then_bytes + SLACK_BYTES


def test_40_loads_and_unloads_over_the_protocol_leave_everything_as_it_was(
    fresh: Served, device_processes: Devices
) -> None:
    write(fresh.repository, "m", {"1/model.onnx": onnx_file(), "config.pbtxt": "max_batch_size: 4 dynamic_batching {}"})
    pids = [fresh.pid, *device_processes.pids.values()]
    with Triton("grpc", tritonclient.grpc, fresh.grpc) as triton:

        def rounds(count: int) -> None:
            for _ in range(count):
                triton.client.load_model("m")
                answer = triton.infer("m", {"x": numbers()}).as_numpy("y")
                np.testing.assert_allclose(answer, np.tanh(numbers()), atol=1e-5)
                triton.client.unload_model("m")

        rounds(ROUNDS // 4)  # what is made once is there
        before, threads = held(pids), [threads_of(pid) for pid in pids]
        memory = [resident_bytes(pid) for pid in pids]
        rounds(ROUNDS)
        assert held(pids) == before
        for pid, then_threads in zip(pids, threads, strict=True):
            assert threads_of(pid) < then_threads + SPARE_THREADS
        for pid, then in zip(pids, memory, strict=True):
            assert resident_bytes(pid) < then + ROUNDS_SLACK_BYTES
