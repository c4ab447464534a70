"""Large tensors in regions of clients: devices use them in place, and whatever a client does to them harms nobody."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from nnhal.arrays import Array
from tests.support.model_server import Devices, Served
from tests.support.tritonclients import Triton, status_of
from tests.support.waiting import wait_until

ROWS = 1 << 15
SIZE = 16 * ROWS
GIVEN = np.linspace(-1, 1, 4 * ROWS, dtype=np.float32).reshape(ROWS, 4)


class Placed:
    """A region of ``mine``, with an input in its first half and room for the output in its second."""

    def __init__(self, triton: Triton, key: str, region: Any, rows: int = ROWS) -> None:
        self.triton = triton
        self.path = Path("/dev/shm", key)
        self.region = region
        self.rows = rows
        self.size = 16 * rows

    def infer(self, model: str, offset: int = 0, output_offset: int | None = None) -> Any:
        api = self.triton.api
        tensor = api.InferInput("x", [self.rows, 4], "FP32")
        tensor.set_shared_memory("mine", self.size, offset)
        wanted = api.InferRequestedOutput("y")
        wanted.set_shared_memory("mine", self.size, self.size if output_offset is None else output_offset)
        return self.triton.client.infer(model, [tensor], outputs=[wanted])

    def result(self, offset: int | None = None) -> Array:
        start = self.size if offset is None else offset
        found: Array = shm.get_contents_as_numpy(self.region, np.float32, [self.rows, 4], start).copy()
        return found

    def is_mapped_by(self, pid: int) -> bool:
        return str(self.path) in Path(f"/proc/{pid}/maps").read_text()


@contextmanager
def placed(triton: Triton, room: int = 64) -> Iterator[Placed]:
    key = f"nnhal_in_place_{os.getpid()}_{threading.get_ident()}"
    region = shm.create_shared_memory_region("mine", key, 2 * SIZE + room, create_only=True)
    try:
        shm.set_shared_memory_region(region, [GIVEN])
        triton.client.register_system_shared_memory("mine", key, 2 * SIZE + room)
        yield Placed(triton, key, region)
        triton.client.unregister_system_shared_memory()
    finally:
        shm.destroy_shared_memory_region(region)


@pytest.fixture
def mine(triton: Triton) -> Iterator[Placed]:
    with placed(triton) as made:
        yield made


def copied(triton: Triton, answer: Any) -> int:
    """The bytes that were copied for an answer."""
    response = answer.get_response(as_json=True) if triton.name == "grpc" else answer.get_response()
    parameter = response["parameters"]["nnhal_bytes_copied"]
    return int(parameter["int64_param"] if triton.name == "grpc" else parameter)


def refusal(run: Any) -> InferenceServerException:
    with pytest.raises(InferenceServerException) as caught:
        run()
    return caught.value


def test_nothing_is_copied_and_only_the_device_maps_it(
    triton: Triton, mine: Placed, served: Served, device_processes: Devices
) -> None:
    for _ in range(2):
        answer = mine.infer("echo_fp32")
        np.testing.assert_array_equal(mine.result(), GIVEN)
        assert copied(triton, answer) == 0
    assert mine.is_mapped_by(device_processes.pids["cpu_acc"])
    assert not mine.is_mapped_by(served.pid)


def test_a_region_that_is_unregistered_is_unmapped(triton: Triton, mine: Placed, device_processes: Devices) -> None:
    pid = device_processes.pids["cpu_acc"]
    mine.infer("echo_fp32")
    assert mine.is_mapped_by(pid)
    triton.client.unregister_system_shared_memory("mine")
    wait_until(lambda: not mine.is_mapped_by(pid), "the device has unmapped the region")


@pytest.mark.parametrize(("offset", "output_offset"), [(4, 64 + SIZE), (0, SIZE // 2), (0, 0)])
def test_tensors_that_are_not_aligned_or_overlap_are_right(
    triton: Triton, mine: Placed, offset: int, output_offset: int
) -> None:
    mine.rows -= 4
    mine.size -= 64
    given = mine.result(offset)
    mine.infer("echo_fp32", offset, output_offset)
    np.testing.assert_array_equal(mine.result(output_offset), given)


def test_an_output_without_room_is_refused(triton: Triton, mine: Placed) -> None:
    tensor = triton.api.InferInput("x", [ROWS, 4], "FP32")
    tensor.set_shared_memory("mine", SIZE, 0)
    wanted = triton.api.InferRequestedOutput("y")
    wanted.set_shared_memory("mine", SIZE - 16, SIZE)
    error = refusal(lambda: triton.client.infer("echo_fp32", [tensor], outputs=[wanted]))
    assert f"should be at least {SIZE} bytes" in error.message()
    tensor.set_shared_memory("mine", SIZE - 16, 0)
    error = refusal(lambda: triton.client.infer("echo_fp32", [tensor], outputs=[wanted]))
    assert f"got {SIZE - 16} bytes, expected {SIZE}" in error.message()


def test_a_region_that_is_shortened_is_its_client_s_error_until_it_is_as_long_again(
    triton: Triton, mine: Placed
) -> None:
    mine.infer("echo_fp32")
    for left in (0, SIZE - 1, SIZE + 100):
        os.truncate(mine.path, left)
        error = refusal(lambda: mine.infer("echo_fp32"))
        assert status_of(error) in ("INVALID_ARGUMENT", "400")
        assert "shared memory region 'mine' is shorter than when it was registered" in error.message()
        os.truncate(mine.path, 2 * SIZE + 64)
        shm.set_shared_memory_region(mine.region, [GIVEN])
        mine.infer("echo_fp32")
        np.testing.assert_array_equal(mine.result(), GIVEN)


def test_a_region_that_shrinks_and_grows_all_the_time_harms_nobody(triton: Triton, mine: Placed) -> None:
    ending = threading.Event()

    def resize() -> None:
        while not ending.is_set():
            for left in (SIZE // 2, 0, 2 * SIZE + 64):
                os.truncate(mine.path, left)

    def use_mine() -> None:
        with Triton(triton.name, triton.api, triton.address) as client:
            own = Placed(client, mine.path.name, mine.region)
            while not ending.is_set():
                try:
                    own.infer("echo_fp32")
                except InferenceServerException as error:
                    failures.append(error.message())

    failures: list[str] = []
    other = np.ones((64, 4), np.float32)
    with ThreadPoolExecutor(2) as pool:
        works = [pool.submit(resize), pool.submit(use_mine)]
        try:
            for _ in range(100):
                np.testing.assert_array_equal(triton.infer("echo_fp32", {"x": other}).as_numpy("y"), other)
        finally:
            ending.set()
        for work in works:
            work.result()
    assert failures
    assert {text for text in failures if "is shorter than when it was registered" not in text} == set()
    shm.set_shared_memory_region(mine.region, [GIVEN])
    mine.infer("echo_fp32")
    np.testing.assert_array_equal(mine.result(), GIVEN)
