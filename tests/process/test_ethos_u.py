"""ethos_u as a process: what it stages, and what it reports of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.memory import open_pool
from nnhal.operations._types import Q8A
from nnhal.remote import RemoteDevice
from nnhal.types import (
    DataLocation,
    DeviceType,
    ErrorStatus,
    ExecutionConfig,
    Operand,
    OperationType,
    Request,
    RequestArgument,
)
from tests.support.additions import POOL_KINDS
from tests.support.agreement import single
from tests.support.processes import own_device

BYTES, SRAM = 64, 1024
CLAMPED = single(OperationType.RELU, Q8A, [(1, BYTES)]).model
TOO_LARGE = single(OperationType.SOFTMAX, Q8A, [(1, 2 * SRAM)], [1.0], Operand(Q8A, (), 1 / 256)).model


@pytest.fixture(scope="module")
def npu() -> Iterator[RemoteDevice]:
    """Open a session with a process whose SRAM is small."""
    with (
        own_device("ethos_u", "--option", f"sram={SRAM}") as (_, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        yield device


def test_ethos_u_describes_itself(npu: RemoteDevice) -> None:
    assert npu.device_type() == DeviceType.ACCELERATOR
    description = npu.describe()
    assert description.imports == {"ashmem", "hardware_buffer_blob"}
    assert description.alignment == 16
    assert description.modelled_timing


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_files_are_staged(npu: RemoteDevice, kind: str, tmp_path: Path) -> None:
    memory = POOL_KINDS[kind](2 * BYTES, tmp_path)
    values = np.arange(BYTES, dtype=np.uint8) * 4
    open_pool(memory, writable=True).write(0, values)
    arguments = [RequestArgument(location=DataLocation(0, offset, BYTES)) for offset in (0, BYTES)]
    before = npu.usage().staged_bytes
    request = Request((arguments[0],), (arguments[1],), (memory,))
    result = npu.prepare_model(CLAMPED).execute(request, ExecutionConfig(measure_timing=True))
    assert npu.usage().staged_bytes - before == (2 * BYTES if "file" in kind else 0)
    assert result.timing.time_on_device_ns > 0
    np.testing.assert_array_equal(open_pool(memory, writable=False).read(BYTES, BYTES), np.maximum(values, 117))


def test_a_network_that_does_not_fit(npu: RemoteDevice) -> None:
    assert npu.supported_operations(TOO_LARGE) == [True]
    (failure,) = npu.optimize_subgraph(TOO_LARGE).failed
    assert "there are 1,024 of SRAM" in failure.reason
    with pytest.raises(HalError, match="does not fit into 1,024 bytes") as caught:
        npu.prepare_model(TOO_LARGE)
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT


def test_a_supported_subgraph_is_compiled_as_one(npu: RemoteDevice) -> None:
    views = npu.optimize_subgraph(CLAMPED)
    (substitution,) = views.substitutions
    assert substitution.operations == (0,)
    assert substitution.replacement.startswith("compiled: 1 operations, ")
