"""Shared memory of clients, with tritonclient's own helper."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from tests.support.caching import held_under
from tests.support.killed_clients import region_client
from tests.support.model_server import Devices, Served, model_server
from tests.support.tritonclients import Triton, status_of
from tests.support.waiting import wait_until

SHAPE = [64, 4]
SIZE = 4 * 64 * 4
GIVEN = np.arange(64 * 4, dtype=np.float32).reshape(64, 4)


@pytest.fixture
def key() -> str:
    return f"nnhal_test_{os.getpid()}_{threading.get_ident()}"


@contextmanager
def region_of(key: str, size: int = 2 * SIZE) -> Iterator[Any]:
    region = shm.create_shared_memory_region("mine", key, size, create_only=True)
    try:
        yield region
    finally:
        shm.destroy_shared_memory_region(region)


@pytest.fixture
def region(triton: Triton, key: str) -> Iterator[Any]:
    """One that is registered as ``mine``, with the input in its first half."""
    with region_of(key) as made:
        shm.set_shared_memory_region(made, [GIVEN])
        triton.client.register_system_shared_memory("mine", key, 2 * SIZE)
        yield made
        triton.client.unregister_system_shared_memory()


def infer(triton: Triton, size: int = SIZE, offset: int = 0) -> Any:
    """With the input in the first half of ``mine`` and the output in the second."""
    tensor = triton.api.InferInput("x", SHAPE, "FP32")
    tensor.set_shared_memory("mine", size, offset)
    wanted = triton.api.InferRequestedOutput("y")
    wanted.set_shared_memory("mine", SIZE, SIZE)
    return triton.client.infer("echo_fp32", [tensor], outputs=[wanted])


def refusal(triton: Triton, call: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as caught:
        call(*arguments)
    return status_of(caught.value), caught.value.message()


def names(triton: Triton) -> set[str]:
    status = triton.shown("get_system_shared_memory_status")
    return set(status.get("regions", {})) if triton.name == "grpc" else {entry["name"] for entry in status}


def test_tensors_go_through_a_region_both_ways(triton: Triton, region: Any) -> None:
    answer = infer(triton)
    np.testing.assert_array_equal(shm.get_contents_as_numpy(region, np.float32, SHAPE, SIZE), GIVEN)
    output = answer.get_output("y")
    if triton.name == "grpc":
        assert "shared_memory_region" in output.parameters
    else:  # Triton's C++ client takes an output with parameters for one with binary data
        assert "parameters" not in output


def test_an_input_in_a_region_and_an_output_in_the_message(triton: Triton, region: Any) -> None:
    tensor = triton.api.InferInput("x", SHAPE, "FP32")
    tensor.set_shared_memory("mine", SIZE)
    np.testing.assert_array_equal(triton.client.infer("echo_fp32", [tensor]).as_numpy("y"), GIVEN)


def test_bytes_go_through_a_region(triton: Triton, key: str) -> None:
    words = np.array([[b"", b"a\0b", "käse".encode(), b"z" * 50]], object)
    packed = serialize_byte_tensor(words)
    size = len(packed.item())
    with region_of(key, 2 * size) as made:
        shm.set_shared_memory_region(made, [packed])
        triton.client.register_system_shared_memory("mine", key, 2 * size)
        tensor = triton.api.InferInput("x", [1, 4], "BYTES")
        tensor.set_shared_memory("mine", size)
        wanted = triton.api.InferRequestedOutput("y")
        wanted.set_shared_memory("mine", size, size)
        triton.client.infer("echo_bytes", [tensor], outputs=[wanted])
        np.testing.assert_array_equal(shm.get_contents_as_numpy(made, np.object_, [1, 4], size), words)
        triton.client.unregister_system_shared_memory("mine")


def test_status_shows_what_was_registered_until_it_is_unregistered(triton: Triton, region: Any, key: str) -> None:
    status = triton.shown("get_system_shared_memory_status", "mine")
    entry = status["regions"]["mine"] if triton.name == "grpc" else status[0]
    assert (entry["name"], entry["key"], int(entry.get("offset", 0))) == ("mine", key, 0)
    assert int(entry["byte_size"]) == 2 * SIZE
    triton.client.unregister_system_shared_memory("mine")
    assert names(triton) == set()
    status_and_text = refusal(triton, triton.client.get_system_shared_memory_status, "mine")
    assert status_and_text[0] in ("NOT_FOUND", "404")
    assert "Unable to find system shared memory region: 'mine'" in status_and_text[1]


def test_what_clients_grep_for(triton: Triton, region: Any, key: str) -> None:
    register = triton.client.register_system_shared_memory
    assert "already in manager" in refusal(triton, register, "mine", key, 8)[1]
    assert "Unable to open shared memory region: 'nobody_s'" in refusal(triton, register, "other", "nobody_s", 8)[1]
    assert "Invalid offset + byte size" in refusal(triton, register, "other", key, 2 * SIZE + 1)[1]
    assert "Invalid offset + byte size" in refusal(triton, infer, triton, SIZE, 2 * SIZE)[1]
    assert "Unable to open" in refusal(triton, register, "other", "../etc/passwd", 8)[1]


def test_a_region_that_is_shortened_is_its_client_s_error_and_the_server_lives(
    triton: Triton, region: Any, key: str
) -> None:
    os.truncate(f"/dev/shm/{key}", 100)
    status, text = refusal(triton, infer, triton)
    assert status in ("INVALID_ARGUMENT", "400")
    assert "is shorter than when it was registered" in text
    os.truncate(f"/dev/shm/{key}", 2 * SIZE)
    assert infer(triton) is not None


def test_regions_are_registered_and_unregistered_under_load(triton: Triton, region: Any, key: str) -> None:
    ending = threading.Event()
    unexpected: list[str] = []

    def run() -> None:
        with Triton(triton.name, triton.api, triton.address) as mine:
            while not ending.is_set():
                try:
                    infer(mine)
                except InferenceServerException as error:
                    if "Unable to find system shared memory region" not in error.message():
                        unexpected.append(error.message())

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        triton.client.unregister_system_shared_memory("mine")
        triton.client.register_system_shared_memory("mine", key, 2 * SIZE)
    ending.set()
    for thread in threads:
        thread.join()
    assert not unexpected
    assert infer(triton) is not None


def test_clients_do_not_see_use_or_unregister_each_other_s_regions(triton: Triton, served: Served, key: str) -> None:
    with region_client(served.grpc, key):
        assert "mine" not in names(triton)
        assert "Unable to find system shared memory region: 'mine'" in refusal(triton, infer, triton)[1]
        triton.client.unregister_system_shared_memory("mine")
        triton.client.unregister_system_shared_memory()
        register = triton.client.register_system_shared_memory
        assert "Unable to open shared memory region" in refusal(triton, register, "mine", key, 8)[1]
        assert len(held_under(Path("/dev/shm"), served.pid)) == 1


def test_of_six_clients_that_are_killed_nothing_is_left(triton: Triton, served: Served, key: str) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(region_client(served.grpc, f"{key}_{number}")) for number in range(6)]
        assert len(held_under(Path("/dev/shm"), served.pid)) == 6
        for client in clients:
            client.kill()
        wait_until(lambda: held_under(Path("/dev/shm"), served.pid) == [], "the regions are gone")
        assert names(triton) == set()
        with region_of(key):  # the name is free again
            triton.client.register_system_shared_memory("mine", key, SIZE)
            triton.client.unregister_system_shared_memory("mine")


def test_there_is_no_cuda_shared_memory(triton: Triton) -> None:
    status = triton.shown("get_cuda_shared_memory_status")
    assert not (status.get("regions") if triton.name == "grpc" else status)
    triton.client.unregister_cuda_shared_memory()
    text = refusal(triton, triton.client.register_cuda_shared_memory, "mine", b"aGFuZGxl", 0, 8)[1]
    assert "GPUs not supported" in text


def test_a_server_that_was_started_without_says_how_to_have_it(device_processes: Devices, tmp_path: Path) -> None:
    with (
        model_server(device_processes, tmp_path) as closed,
        Triton("grpc", tritonclient.grpc, closed.grpc) as triton,
    ):
        status, text = refusal(triton, triton.client.register_system_shared_memory, "mine", "mine", 8)
        assert status == "UNIMPLEMENTED"
        assert text == "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
        assert "system_shared_memory" not in triton.shown("get_server_metadata")["extensions"]
