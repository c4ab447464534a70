"""Copies by the server for requests, beside what they bring: within the memory of requests, or is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import helper
from tritonclient.utils import InferenceServerException

from tests.support.front_workers import workers_of
from tests.support.model_server import Devices, Served, model_server
from tests.support.onnx_models import onnx_model
from tests.support.repositories import numbers, onnx_file, write
from tests.support.resources import forget_peak, peak_bytes
from tests.support.tritonclients import Triton, status_of
from tests.support.waiting import wait_until

BUDGET = 48 << 20
SPARE = 48 << 20
REGION = 96 << 20
ROWS = REGION // 32
EXHAUSTED = {"grpc": "RESOURCE_EXHAUSTED", "http": "429"}
TILES = 3_000_000


@pytest.fixture(scope="module", params=["0", "2"])
def limited(
    request: pytest.FixtureRequest, device_processes: Devices, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A server whose requests may hold half of a region, without and with front workers."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file()})
    tiled = onnx_model([helper.make_node("Tile", ["x", "r"], ["y"])], {"x": (1, 8)}, ["y"], {"r": np.array([TILES, 1])})
    write(repository, "tiled", {"1/model.onnx": tiled.SerializeToString()})
    options = ("--allow-client-shm", "--request-memory", str(BUDGET), "--front-workers", request.param)
    with model_server(device_processes, repository, *options) as served:
        yield served


@pytest.fixture(params=["grpc", "http"])
def triton(request: pytest.FixtureRequest, limited: Served) -> Iterator[Triton]:
    api = {"grpc": tritonclient.grpc, "http": tritonclient.http}[request.param]
    with Triton(request.param, api, getattr(limited, request.param)) as client:
        yield client


@pytest.fixture
def region(triton: Triton) -> Iterator[str]:
    """A region for an input and an output, of which no page has been written."""
    path = Path("/dev/shm") / f"nnhal_copied_{os.getpid()}_{triton.name}"
    with ExitStack() as undo:
        with path.open("xb") as file:
            undo.callback(path.unlink)
            file.truncate(2 * REGION)
        triton.client.register_system_shared_memory("mine", path.name, 2 * REGION)
        undo.callback(triton.client.unregister_system_shared_memory, "mine")
        yield "mine"


def peaks(served: Served) -> int:
    """The most memory of the framework and its front workers, from now on."""
    return sum(map(peak_bytes, processes(served)))


def processes(served: Served) -> list[int]:
    return [served.pid, *workers_of(served.child)]


def infer(triton: Triton, region: str, rows: int, offset: int, to_region: bool) -> object:
    """Run ``tanh`` on rows in the region."""
    tensor = triton.api.InferInput("x", [rows, 8], "FP32")
    tensor.set_shared_memory(region, 32 * rows, offset)
    wanted = triton.api.InferRequestedOutput("y")
    if to_region:
        wanted.set_shared_memory(region, 32 * rows, REGION)
    return triton.client.infer("tanh", [tensor], outputs=[wanted])


@pytest.mark.slow
@pytest.mark.parametrize(("offset", "to_region"), [(4, True), (4, False), (0, False)])
def test_a_region_that_must_be_copied_counts(
    limited: Served, triton: Triton, region: str, offset: int, to_region: bool
) -> None:
    before = sum(map(forget_peak, processes(limited)))
    with pytest.raises(InferenceServerException) as caught:
        infer(triton, region, ROWS - 1, offset, to_region)
    assert status_of(caught.value) == EXHAUSTED[triton.name]
    assert f"all together may hold {BUDGET}, which --request-memory allows" in caught.value.message()
    assert peaks(limited) - before < BUDGET + SPARE


@pytest.mark.slow
def test_a_region_that_devices_use_in_place_does_not_count(limited: Served, triton: Triton, region: str) -> None:
    before = sum(map(forget_peak, processes(limited)))
    if workers_of(limited.child):  # they copy all regions
        with pytest.raises(InferenceServerException, match="--request-memory"):
            infer(triton, region, ROWS, 0, True)
    else:
        infer(triton, region, ROWS, 0, True)
    assert peaks(limited) - before < SPARE


@pytest.mark.slow
def test_an_output_that_is_far_larger_than_its_input_counts(limited: Served, triton: Triton) -> None:
    before = sum(map(forget_peak, processes(limited)))
    with pytest.raises(InferenceServerException) as caught:
        triton.infer("tiled", {"x": numbers()})
    assert status_of(caught.value) == EXHAUSTED[triton.name]
    assert peaks(limited) - before < BUDGET + SPARE


@pytest.mark.slow
def test_memory_that_is_kept_for_later_is_there_for_other_requests(limited: Served, triton: Triton) -> None:
    for rows in range(200_000, 200_005):
        # The memory of a run before counts until the last view of it is gone.
        wait_until(partial(has_room, triton, rows), "there is room for another shape")


@pytest.mark.slow
def test_a_refused_output_costs_later_requests_nothing(limited: Served, triton: Triton, region: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        infer(triton, region, ROWS - 1, 0, False)
    assert status_of(caught.value) == EXHAUSTED[triton.name]
    wait_until(partial(has_room, triton, 210_000), "there is room for another request")


def has_room(triton: Triton, rows: int) -> bool:
    """Return whether a run of so many rows is within the memory of requests."""
    try:
        triton.infer("tanh", {"x": np.repeat(numbers(), rows, 0)})
    except InferenceServerException as error:
        assert status_of(error) in EXHAUSTED.values()
        return False
    return True
