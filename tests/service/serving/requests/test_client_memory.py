"""Requests whose tensors lie in memory of clients, on cpu_acc."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_frontends import import_model
from nnhal_service.partition import Options, Pin
from nnhal_service.runtime import Fleet, LoadedModel, prepare
from nnhal_service.serving import Batching, InferenceRequest, ServedModel, ServingConfig
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.client_memory import ClientRegion, Place, PlacedTensor, to_array
from tests.service.serving.conftest import Serve
from tests.support.onnx_models import onnx_model
from tests.support.processes import device_process
from tests.support.serving import shared_loop
from tests.support.waiting import wait_for_death, wait_until

COLUMNS = 1 << 15
ROW_BYTES = 4 * COLUMNS
HOUR_NS = 3600 * 10**9
BATCHES = ServingConfig(max_batch_size=4, batching=Batching((4,), HOUR_NS))


class Memory:
    """A client's file, with rows of an input in its first half and room for outputs in its second."""

    def __init__(self, rows: int = 1) -> None:
        self.size = rows * ROW_BYTES
        self.shape = (rows, COLUMNS)
        self.fd = os.memfd_create("client")
        os.ftruncate(self.fd, 2 * self.size)
        self.given = np.random.default_rng(rows).standard_normal(self.shape, np.float32)
        os.pwrite(self.fd, self.given.tobytes(), 0)
        self.region = ClientRegion("r", Descriptor(os.dup(self.fd)), 0, 2 * self.size)

    def request(self, offset: int = 0, room: int = 0) -> InferenceRequest:
        tensor = PlacedTensor(np.dtype(np.float32), self.shape, Place(self.region, offset, self.size))
        return InferenceRequest({"x": tensor}, output_places={"y": Place(self.region, self.size, room or self.size)})

    def result(self) -> Array:
        return np.frombuffer(os.pread(self.fd, self.size, self.size), np.float32).reshape(self.shape)

    def truncate(self) -> None:
        os.ftruncate(self.fd, self.size // 2)


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory()
    yield made
    os.close(made.fd)


def relu(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    return onnx_model(nodes or [helper.make_node("Relu", ["x"], ["y"])], {"x": ["n", COLUMNS]}, ["y"])


def run(served: ServedModel, request: InferenceRequest) -> tuple[Any, Any]:
    """The output, and the bytes that were copied."""
    with served.infer_and_wait(request) as response:
        output = response.outputs["y"]
        kept = output if isinstance(output, PlacedTensor) else output.copy()
        return kept, response.parameters["nnhal_bytes_copied"]


def mappings(endpoint: Endpoint) -> int:
    with RemoteDevice(endpoint, "test") as device:
        return device.usage().mappings


def test_inputs_and_outputs_stay_where_they_are(serve: Serve, memory: Memory) -> None:
    served = serve(relu())
    for _ in range(2):
        output, copied = run(served, memory.request())
        assert isinstance(output, PlacedTensor)
        assert output.dtype == np.float32
        assert (output.shape, copied) == (memory.shape, 0)
        np.testing.assert_array_equal(memory.result(), np.maximum(memory.given, 0))


def test_arrays_and_placed_tensors_may_be_mixed(serve: Serve, memory: Memory) -> None:
    served = serve(relu())
    output, copied = run(served, replace(memory.request(), output_places={}))
    np.testing.assert_array_equal(output, np.maximum(memory.given, 0))
    assert copied == memory.size
    output, copied = run(served, replace(memory.request(), inputs={"x": memory.given}))
    assert isinstance(output, PlacedTensor)
    np.testing.assert_array_equal(memory.result(), np.maximum(memory.given, 0))
    assert copied == memory.size


@pytest.mark.parametrize(("offset", "room", "stays"), [(4, 0, True), (0, ROW_BYTES - 4, False), (64, 0, False)])
def test_what_cannot_stay_is_copied(serve: Serve, memory: Memory, offset: int, room: int, stays: bool) -> None:
    """An input that is not aligned, an output without room for it, an output that overlaps the input."""
    os.ftruncate(memory.fd, 3 * memory.size)
    memory.region = ClientRegion("r", Descriptor(os.dup(memory.fd)), 0, 3 * memory.size)
    os.pwrite(memory.fd, memory.given.tobytes(), offset)
    place = Place(memory.region, memory.size + (64 if stays else 0), room or memory.size)
    output, _ = run(serve(relu()), replace(memory.request(offset), output_places={"y": place}))
    assert isinstance(output, PlacedTensor) == stays
    np.testing.assert_array_equal(to_array(output), np.maximum(memory.given, 0))


def test_an_output_whose_size_depends_on_the_data_is_copied(serve: Serve, memory: Memory) -> None:
    served = serve(relu(helper.make_node("NonZero", ["x"], ["y"])))
    output, _ = run(served, replace(memory.request(), output_places={"y": Place(memory.region, 0, memory.size)}))
    np.testing.assert_array_equal(output, np.nonzero(memory.given))


def test_a_region_that_is_retired_is_unmapped_even_if_it_was_in_use(
    serve: Serve, memory: Memory, cpu_acc: Endpoint
) -> None:
    served = serve(relu())
    before = mappings(cpu_acc)
    run(served, memory.request())
    assert mappings(cpu_acc) == before + 2
    memory.region.retire()
    wait_until(lambda: mappings(cpu_acc) == before, "the device has unmapped it")
    run(served, memory.request())  # one that has begun to use it before
    np.testing.assert_array_equal(memory.result(), np.maximum(memory.given, 0))
    wait_until(lambda: mappings(cpu_acc) == before, "the device has unmapped it again")


def test_a_model_that_is_closed_forgets_regions(serve: Serve, memory: Memory, cpu_acc: Endpoint) -> None:
    before = mappings(cpu_acc)
    served = serve(relu())
    run(served, memory.request())
    served.close()
    assert mappings(cpu_acc) == before
    memory.region.retire()


def test_a_shortened_region_is_the_error_of_its_request(serve: Serve, memory: Memory) -> None:
    served = serve(relu())
    run(served, memory.request())
    memory.truncate()
    for _ in range(2):
        with pytest.raises(ServingError, match="region 'r' is shorter than when it was registered") as refusal:
            run(served, memory.request())
        assert refusal.value.kind == ErrorKind.INVALID_ARGUMENT
    os.ftruncate(memory.fd, 2 * memory.size)
    os.pwrite(memory.fd, memory.given.tobytes(), 0)
    _, copied = run(served, memory.request())
    assert copied == 0
    np.testing.assert_array_equal(memory.result(), np.maximum(memory.given, 0))


def test_requests_that_are_joined_are_copied_and_fail_alone(serve: Serve) -> None:
    served = serve(relu(), BATCHES)
    files = [Memory() for _ in range(4)]
    files[2].truncate()
    with ThreadPoolExecutor(4) as threads:
        works = [threads.submit(run, served, file.request()) for file in files]
        wait_until(lambda: all(work.done() for work in works), "the batch has run")
    with pytest.raises(ServingError, match="is shorter than when it was registered"):
        works[2].result()
    for number in (0, 1, 3):
        output, copied = works[number].result()
        np.testing.assert_array_equal(to_array(output), np.maximum(files[number].given, 0))
        assert copied == 2 * 3 * ROW_BYTES  # into the batch, and out of it
    for file in files:
        os.close(file.fd)


def test_a_file_on_a_disk_is_copied(serve: Serve, memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(memory.given.tobytes() + bytes(memory.size))
    memory.region = ClientRegion("r", Descriptor(os.open(path, os.O_RDWR)), 0, 2 * memory.size)
    output, copied = run(serve(relu()), memory.request())
    np.testing.assert_array_equal(output, np.maximum(memory.given, 0))
    assert copied == 2 * memory.size


def test_another_device_stages_what_the_one_that_is_gone_had_mapped(
    short_path: Path, cpu_ref: Endpoint, memory: Memory
) -> None:
    with device_process("cpu_acc", short_path) as (child, endpoint), ExitStack() as stack:
        fleet = Fleet({"cpu_acc": endpoint, "cpu_ref": cpu_ref})
        stack.callback(fleet.close)
        imported = import_model(relu().SerializeToString())
        loaded = LoadedModel(prepare(imported, fleet, (), Options(pins=(Pin("name:*", "cpu_acc"),))))
        served = ServedModel("m", "1", loaded, ServingConfig(), shared_loop(), measure=True)
        stack.callback(served.close)
        assert run(served, memory.request())[1] == 0
        os.kill(child.pid, signal.SIGKILL)
        wait_for_death(child.pid)
        os.pwrite(memory.fd, bytes(memory.size), memory.size)
        output, copied = run(served, memory.request())
        np.testing.assert_array_equal(to_array(output), np.maximum(memory.given, 0))
        assert copied == 2 * memory.size
        memory.truncate()
        with pytest.raises(ServingError, match="is shorter than when it was registered"):
            run(served, memory.request())
