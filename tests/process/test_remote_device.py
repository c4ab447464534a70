"""A device process whose accelerator is at the other end of a TCP connection."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.memory import Pool, create_ashmem, open_pool
from nnhal.remote import RemoteDevice
from nnhal.types import (
    BufferRole,
    DataLocation,
    ErrorStatus,
    ExecutionConfig,
    OptimizationViews,
    Request,
    RequestArgument,
)
from nnhal.types.memory import NOWHERE
from tests.support.additions import POOL_KINDS, addition_model, argument
from tests.support.far_devices import Served, far_device, near_device
from tests.support.gates import PATIENT, Gate, gate_model
from tests.support.waiting import SECONDS, wait_until

LARGE = 700_000
"""Elements of a tensor that is sent in several chunks."""


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def far(directory: Path) -> Iterator[Served]:
    with far_device(directory) as served:
        yield served


@pytest.fixture(scope="module")
def near(directory: Path, far: Served) -> Iterator[Served]:
    with near_device(directory, far, "--option=name=npu-7") as served:
        yield served


@pytest.fixture
def device(near: Served) -> Iterator[RemoteDevice]:
    with RemoteDevice(near.endpoint, "test") as session:
        yield session


def addition(elements: int, kind: str = "ashmem", directory: Path = Path()) -> tuple[Request, Pool]:
    """A request of the addition of 0, 1, … and 1, 1, …, and the place of its result."""
    size = 4 * elements
    pool = POOL_KINDS[kind](3 * size, directory)
    values = np.concatenate([np.arange(elements, dtype=np.float32), np.ones(elements, np.float32)])
    opened = open_pool(pool, writable=True)
    opened.write(0, values.view(np.uint8))
    request = Request((argument(0, size), argument(size, size)), (argument(2 * size, size),), (pool,))
    return request, opened


def result_of(opened: Pool, elements: int) -> Array:
    return opened.read(8 * elements, 4 * elements).view(np.float32)


def test_it_is_what_the_other_device_is(device: RemoteDevice, far: Served) -> None:
    with RemoteDevice(far.endpoint) as other:
        assert device.identity().differences(other.identity()) == ["cache_files"]
        description = device.describe()
        assert description.name == f"cpu_ref@{far.address}"
        assert description.realisation == f"{other.describe().realisation}, at tcp://{far.address}"


def test_costs_of_the_wire_were_measured(device: RemoteDevice, far: Served) -> None:
    costs = device.describe().transfer_costs
    assert costs.is_wire
    assert costs.round_trip_ns > 0 and costs.copy_ns_per_byte > 0
    with RemoteDevice(far.endpoint) as other:
        assert costs.hop_ns == costs.round_trip_ns + other.describe().transfer_costs.hop_ns


def test_operators_of_the_other_host_see_who_uses_the_device(far: Served, near: Served) -> None:
    with far.admin() as admin:
        clients = [session.client_name for session in admin.process().sessions]
    assert any(name.startswith("npu-7 from 127.0.0.1:") for name in clients), clients


def test_it_supports_and_costs_and_optimises_what_the_other_does(device: RemoteDevice, far: Served) -> None:
    model = addition_model()
    with RemoteDevice(far.endpoint) as other:
        assert device.assess_model(model) == other.assess_model(model)
    assert device.optimize_subgraph(model) == OptimizationViews(untouched=(0,))


def test_large_tensors_are_sent_in_chunks(device: RemoteDevice) -> None:
    request, opened = addition(LARGE)
    burst = device.prepare_model(addition_model(LARGE)).configure_execution_burst()
    outcome = burst.execute(request, config=ExecutionConfig(measure_timing=True))
    assert np.array_equal(result_of(opened, LARGE), np.arange(1, LARGE + 1, dtype=np.float32))
    assert outcome.staged_bytes == 12 * LARGE
    sent, received = outcome.copies
    assert (sent.bytes, sent.is_output, sent.is_wire) == (8 * LARGE, False, True)
    assert (received.bytes, received.is_output, received.is_wire) == (4 * LARGE, True, True)
    span = outcome.span
    assert (
        span.started_ns <= sent.started_ns <= sent.ended_ns <= received.started_ns <= received.ended_ns <= span.ended_ns
    )


def test_an_omitted_output_is_not_received(device: RemoteDevice) -> None:
    request, opened = addition(16)
    omitted = RequestArgument(NOWHERE, (), True)
    prepared = device.prepare_model(addition_model())
    try:
        prepared.execute(Request(request.inputs, (omitted,), request.pools))
    except HalError as error:
        assert error.status in (ErrorStatus.GENERAL_FAILURE, ErrorStatus.INVALID_ARGUMENT)
    assert list(result_of(opened, 16)) == [0.0] * 16


def test_a_deadline_holds_on_the_other_host(device: RemoteDevice) -> None:
    prepared = device.prepare_model(gate_model())
    with pytest.raises(HalError) as caught:
        prepared.execute(Gate().request, PATIENT, time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 300_000_000)
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT
    assert "tcp://127.0.0.1:" in caught.value.message


def test_what_an_operator_cancels_here_ends_there(device: RemoteDevice, near: Served, far: Served) -> None:
    prepared = device.prepare_model(gate_model())
    failures: list[HalError] = []

    def execute() -> None:
        try:
            prepared.execute(Gate().request, PATIENT)
        except HalError as error:
            failures.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    with near.admin() as here, far.admin() as there:
        wait_until(lambda: bool(there.process().executions), "the other device executes")
        (execution,) = here.process().executions
        here.cancel_execution(execution.id)
        thread.join(SECONDS)
        assert not there.process().executions
    assert [error.status for error in failures] == [ErrorStatus.GENERAL_FAILURE]
    assert "cancelled" in failures[0].message


def test_values_in_device_buffers_do_not_travel(device: RemoteDevice) -> None:
    request, _ = addition(16)
    prepared = device.prepare_model(addition_model())
    buffer = device.allocate([prepared], output_roles=[BufferRole(0, 0, 1.0)])
    kept = Request(request.inputs, (RequestArgument(DataLocation(1)),), (*request.pools, buffer.token))
    burst = prepared.configure_execution_burst()
    for _ in range(2):
        assert burst.execute(kept).staged_bytes == 2 * 64
    memory = create_ashmem(64)
    buffer.copy_to(memory)
    assert list(open_pool(memory, writable=False).read(0, 64).view(np.float32)) == list(range(1, 17))


def test_what_is_released_here_is_released_there(near: Served, far: Served) -> None:
    with RemoteDevice(near.endpoint) as device:
        request, _ = addition(16)
        prepared = device.prepare_model(addition_model())
        prepared.create_reusable_execution(request).execute()
        assert far.usage().prepared_models >= 1
    wait_until(lambda: far.usage().prepared_models == 0, "the other device has released the model")
    wait_until(lambda: far.usage().executions == 0, "the other device has released the execution")
    assert far.usage().bursts == 0
