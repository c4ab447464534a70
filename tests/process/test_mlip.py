"""mlip as a process: what it stages, what it reports of itself, and what its compilation cache keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import open_pool
from nnhal.operations._types import F16, F32
from nnhal.remote import RemoteDevice
from nnhal.types import (
    DataLocation,
    DeviceType,
    ErrorStatus,
    ExecutionConfig,
    Model,
    OperationType,
    Request,
    RequestArgument,
)
from tests.support.additions import POOL_KINDS
from tests.support.caching import CachingDevice, Sample
from tests.support.mlip_hal import MlipRecipe, random_inputs
from tests.support.processes import own_device
from tests.support.refusals import FAILURE
from tests.support.wire import WireDevice

ELEMENTS = 64
BYTES = 2 * ELEMENTS


def clamped() -> Model:
    recipe = MlipRecipe(F16)
    return recipe.finish(recipe.operation(OperationType.RELU, [recipe.tensor((1, ELEMENTS))], recipe.like())).model


def long_row() -> Model:
    recipe = MlipRecipe(F16)
    inputs = [recipe.tensor((1, 1 << 20)), recipe.weights((1, 1 << 20)), recipe.bias(1), *recipe.integers(0)]
    return recipe.finish(recipe.operation(OperationType.FULLY_CONNECTED, inputs, recipe.like())).model


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """Run a process that looks at every byte that it reads."""
    with own_device("mlip", "--option", "checked=true") as (_, found):
        yield found


@pytest.fixture(scope="module")
def accelerator(endpoint: Endpoint) -> Iterator[RemoteDevice]:
    with RemoteDevice(endpoint, "test") as device:
        yield device


def test_mlip_describes_itself(accelerator: RemoteDevice) -> None:
    assert accelerator.device_type() == DeviceType.ACCELERATOR
    description = accelerator.describe()
    assert description.imports == {"ashmem", "hardware_buffer_blob"}
    assert description.alignment == 128
    assert description.modelled_timing
    assert [factory.relaxed_as_float16 for factory in description.tensor_handle_factories] == [True]


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_files_are_staged(accelerator: RemoteDevice, kind: str, tmp_path: Path) -> None:
    memory = POOL_KINDS[kind](2 * BYTES, tmp_path)
    values = np.linspace(-2, 2, ELEMENTS).astype(np.float16)
    open_pool(memory, writable=True).write(0, values.view(np.uint8))
    arguments = [RequestArgument(location=DataLocation(0, offset, BYTES)) for offset in (0, BYTES)]
    before = accelerator.usage().staged_bytes
    request = Request((arguments[0],), (arguments[1],), (memory,))
    result = accelerator.prepare_model(clamped()).execute(request, ExecutionConfig(measure_timing=True))
    assert accelerator.usage().staged_bytes - before == (2 * BYTES if "file" in kind else 0)
    assert result.timing.time_on_device_ns > 0
    got = open_pool(memory, writable=False).read(BYTES, BYTES).view(np.float16)
    np.testing.assert_array_equal(got, np.maximum(values, 0))


def test_a_network_that_does_not_fit(accelerator: RemoteDevice) -> None:
    assert accelerator.supported_operations(long_row()) == [True]
    (failure,) = accelerator.optimize_subgraph(long_row()).failed
    assert "bytes of each tile's memory, expected at most 1048576" in failure.reason
    with pytest.raises(HalError, match="expected at most 1048576") as caught:
        accelerator.prepare_model(long_row())
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT


def test_a_float32_model_that_is_not_relaxed_is_refused_with_the_hint(accelerator: RemoteDevice) -> None:
    recipe = MlipRecipe(F32)
    strict = recipe.build(recipe.operation(OperationType.RELU, [recipe.tensor((1, 4))], recipe.like())).model
    (answer,) = accelerator.assess_model(strict).operations
    assert "relaxComputationFloat32toFloat16" in str(answer)


@pytest.mark.contract("CC-01", "CC-12")
def test_a_cache_keeps_the_binary_and_another_process_loads_it(endpoint: Endpoint, tmp_path: Path) -> None:
    recipe = MlipRecipe(F16)
    inputs = [recipe.tensor((2, 64)), recipe.weights((32, 64)), recipe.bias(32), *recipe.integers(1)]
    resolved = recipe.finish(recipe.operation(OperationType.FULLY_CONNECTED, inputs, recipe.like(dimensions=(2, 32))))
    sample = Sample(resolved.model, tuple(random_inputs(resolved)))
    with WireDevice(endpoint) as wire:
        device = CachingDevice(wire)
        entry = device.entry(tmp_path / "entry")
        expected = device.run(device.prepare(sample.model, entry.create()), sample)
    (kept,) = (path.read_bytes() for path in entry.data)
    assert b"MRVL" in kept
    with (
        own_device("mlip", "--option", "checked=true") as (_, other),
        WireDevice(other) as wire,
    ):
        device = CachingDevice(wire)
        for got, wanted in zip(device.run(device.restore(entry.open()), sample), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
        damaged = bytearray(kept)
        damaged[kept.index(b"MRVL") + 9000] ^= 1
        entry.data[0].write_bytes(damaged)
        assert device.restore(entry.open()).status == FAILURE
