"""ethos_n as a process: what it stages, and what it reports of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import open_pool
from nnhal.operations._types import Q8A, Q8AS
from nnhal.remote import RemoteDevice
from nnhal.types import (
    DataLocation,
    DeviceType,
    ExecutionConfig,
    Memory,
    Model,
    OperationType,
    Request,
    RequestArgument,
    Substitution,
)
from tests.support.additions import POOL_KINDS
from tests.support.agreement import single
from tests.support.processes import own_device

BYTES = 64
CLAMPED = single(OperationType.RELU, Q8A, [(1, BYTES)]).model


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with own_device("ethos_n") as (_, found):
        yield found


@pytest.fixture
def npu(endpoint: Endpoint) -> Iterator[RemoteDevice]:
    with RemoteDevice(endpoint, "test") as device:
        yield device


def request_in(memory: Memory, output_at: int = BYTES) -> Request:
    """Return a request with the input at the beginning of a pool, and the output after it."""
    arguments = [RequestArgument(location=DataLocation(0, offset, BYTES)) for offset in (0, output_at)]
    return Request((arguments[0],), (arguments[1],), (memory,))


def fill(memory: Memory) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    values = np.arange(BYTES, dtype=np.uint8) * 4
    open_pool(memory, writable=True).write(0, values)
    return np.maximum(values, 117)


def test_ethos_n_describes_itself(npu: RemoteDevice) -> None:
    assert npu.device_type() == DeviceType.ACCELERATOR
    description = npu.describe()
    assert description.imports == {"hardware_buffer_blob"}
    assert description.alignment == 64
    assert description.modelled_timing
    (factory,) = description.tensor_handle_factories
    assert factory.id == "ethos_n/import"
    assert factory.imports == factory.exports == {"hardware_buffer_blob"}
    assert factory.fallback_import_memory_required


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_only_hardware_buffers_are_used_in_place(npu: RemoteDevice, kind: str, tmp_path: Path) -> None:
    memory = POOL_KINDS[kind](2 * BYTES, tmp_path)
    expected = fill(memory)
    before = npu.usage().staged_bytes
    npu.prepare_model(CLAMPED).execute(request_in(memory))
    assert npu.usage().staged_bytes - before == (0 if kind == "blob" else 2 * BYTES)
    np.testing.assert_array_equal(open_pool(memory, writable=False).read(BYTES, BYTES), expected)


def test_a_burst_says_what_was_staged(npu: RemoteDevice, tmp_path: Path) -> None:
    burst = npu.prepare_model(CLAMPED).configure_execution_burst()
    staged = {
        kind: burst.execute(request_in(make(2 * BYTES, tmp_path)), [-1]).staged_bytes
        for kind, make in POOL_KINDS.items()
    }
    assert staged == {kind: 0 if kind == "blob" else 2 * BYTES for kind in POOL_KINDS}


def test_an_argument_that_is_not_aligned_to_64_is_staged(npu: RemoteDevice, tmp_path: Path) -> None:
    memory = POOL_KINDS["blob"](4 * BYTES, tmp_path)
    expected = fill(memory)
    burst = npu.prepare_model(CLAMPED).configure_execution_burst()
    assert burst.execute(request_in(memory, BYTES + 16), [-1]).staged_bytes == BYTES
    np.testing.assert_array_equal(open_pool(memory, writable=False).read(BYTES + 16, BYTES), expected)


def test_measured_times_are_modelled(npu: RemoteDevice, tmp_path: Path) -> None:
    request = request_in(POOL_KINDS["blob"](2 * BYTES, tmp_path))
    result = npu.prepare_model(CLAMPED).execute(request, ExecutionConfig(measure_timing=True))
    assert result.timing.time_on_device_ns == pytest.approx(npu.assess_model(CLAMPED).operation_ns[0], abs=1)
    assert result.timing.time_in_driver_ns >= result.timing.time_on_device_ns


def test_a_refusal_has_a_hint(npu: RemoteDevice) -> None:
    model: Model = single(OperationType.MAX_POOL_2D, Q8AS, [(1, 8, 8, 3)], [1, 2, 2, 4, 4, 0]).model
    assert npu.supported_operations(model) == [False]
    (answer,) = npu.assess_model(model).operations
    assert (answer.code, answer.got, answer.allowed) == ("KERNEL", "a window of 4 x 4", "2 x 2 or 3 x 3")
    assert answer.hint


def test_a_supported_subgraph_is_compiled_as_one(npu: RemoteDevice) -> None:
    views = npu.optimize_subgraph(CLAMPED)
    assert views.substitutions == (Substitution((0,), f"compiled: 1 operations, {2 * BYTES} bytes of SRAM, 1 stripes"),)
    assert not views.failed
    assert not views.untouched
