"""NPUs as processes: what they stage, what they report of themselves and of models, and what their caches keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import open_pool
from nnhal.operations.operand_types import F16, F32, Q8A, Q8AS
from nnhal.remote import RemoteDevice
from nnhal.types import (
    DataLocation,
    DeviceType,
    ErrorStatus,
    ExecutionConfig,
    Memory,
    Model,
    Operand,
    OperationType,
    Request,
    RequestArgument,
    Substitution,
)
from tests.support.additions import POOL_KINDS
from tests.support.agreement import single
from tests.support.caching import CachingDevice, Sample
from tests.support.calls import session_with
from tests.support.mlip_hal import MlipRecipe, random_inputs
from tests.support.processes import own_device
from tests.support.refusals import FAILURE

ELEMENTS, SRAM = 64, 1024
MEASURED = ExecutionConfig(measure_timing=True)


def clamped_floats() -> Model:
    recipe = MlipRecipe(F16)
    return recipe.finish(recipe.operation(OperationType.RELU, [recipe.tensor((1, ELEMENTS))], recipe.like())).model


def long_row() -> Model:
    recipe = MlipRecipe(F16)
    inputs = [recipe.tensor((1, 1 << 20)), recipe.weights((1, 1 << 20)), recipe.bias(1), *recipe.integers(0)]
    return recipe.finish(recipe.operation(OperationType.FULLY_CONNECTED, inputs, recipe.like())).model


@dataclass(frozen=True)
class Accelerator:
    """A device, and what is expected of it."""

    options: tuple[str, ...]
    """Options of its process."""
    alignment: int
    """Multiples at which it uses memory in place."""
    imports: frozenset[str]
    """Kinds of memory that it uses in place."""
    model: Model
    """A model of one RELU."""
    least: int
    """Stored value that RELU leaves as the least."""


_BYTES = single(OperationType.RELU, Q8A, [(1, ELEMENTS)]).model
BLOB, BOTH = frozenset({"hardware_buffer_blob"}), frozenset({"ashmem", "hardware_buffer_blob"})
ACCELERATORS = {
    "ethos_n": Accelerator((), 64, BLOB, _BYTES, 117),
    "ethos_u": Accelerator(("--option", f"sram={SRAM}"), 16, BOTH, _BYTES, 117),
    "mlip": Accelerator(("--option", "checked=true"), 128, BOTH, clamped_floats(), 0),
}


@pytest.fixture(scope="module")
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """Run a process of a device: of ethos_u with little SRAM, of mlip one that looks at every byte that it reads."""
    with own_device(request.param, *ACCELERATORS[request.param].options) as (_, found):
        yield found


@pytest.fixture
def npu(endpoint: Endpoint) -> Iterator[RemoteDevice]:
    with RemoteDevice(endpoint, "test") as device:
        yield device


@pytest.fixture
def kind(endpoint: Endpoint) -> Accelerator:
    return ACCELERATORS[endpoint.directory.name]


def of(*names: str) -> pytest.MarkDecorator:
    """Run a test on these devices."""
    return pytest.mark.parametrize("endpoint", names, indirect=True, scope="module")


def filled(kind: Accelerator, memory: Memory) -> tuple[Array, int]:
    """Write the input to the begin of a pool; return the output, and the bytes of each."""
    values = np.arange(ELEMENTS, dtype=np.uint8) * 4
    if kind.least == 0:
        values = np.linspace(-2, 2, ELEMENTS).astype(np.float16)
    open_pool(memory, writable=True).write(0, values.view(np.uint8))
    return np.maximum(values, values.dtype.type(kind.least)), values.nbytes


def request_in(memory: Memory, size: int, output_at: int) -> Request:
    first, second = (RequestArgument(location=DataLocation(0, offset, size)) for offset in (0, output_at))
    return Request((first,), (second,), (memory,))


@of(*ACCELERATORS)
def test_an_npu_describes_itself(npu: RemoteDevice, kind: Accelerator) -> None:
    assert npu.device_type() == DeviceType.ACCELERATOR
    description = npu.describe()
    assert description.imports == kind.imports
    assert description.alignment == kind.alignment
    assert description.modelled_timing
    relaxed = [factory.relaxed_as_float16 for factory in description.tensor_handle_factories]
    assert relaxed == [kind is ACCELERATORS["mlip"]]


@of(*ACCELERATORS)
@pytest.mark.parametrize("pool", POOL_KINDS)
def test_memory_that_the_npu_cannot_use_in_place_is_staged_and_told(
    npu: RemoteDevice, kind: Accelerator, pool: str, tmp_path: Path
) -> None:
    memory = POOL_KINDS[pool](1024, tmp_path)
    expected, size = filled(kind, memory)
    request, prepared = request_in(memory, size, 128), npu.prepare_model(kind.model)
    in_place = {"ashmem": "ashmem", "blob": "hardware_buffer_blob"}.get(pool) in kind.imports
    before = npu.usage().staged_bytes
    timing = prepared.execute(request, MEASURED).timing
    assert npu.usage().staged_bytes - before == (0 if in_place else 2 * size)
    assert 0 < timing.time_on_device_ns <= timing.time_in_driver_ns
    got = open_pool(memory, writable=False).read(128, size).view(expected.dtype)
    np.testing.assert_array_equal(got, expected)
    burst = prepared.configure_execution_burst()
    assert burst.execute(request, [-1]).staged_bytes == (0 if in_place else 2 * size)


@of("ethos_n")
def test_an_argument_that_is_not_aligned_is_staged(npu: RemoteDevice, kind: Accelerator, tmp_path: Path) -> None:
    memory = POOL_KINDS["blob"](1024, tmp_path)
    expected, size = filled(kind, memory)
    burst = npu.prepare_model(kind.model).configure_execution_burst()
    assert burst.execute(request_in(memory, size, 128 + 16), [-1]).staged_bytes == size
    np.testing.assert_array_equal(open_pool(memory, writable=False).read(128 + 16, size), expected)


@of("ethos_n")
def test_measured_times_are_modelled(npu: RemoteDevice, kind: Accelerator, tmp_path: Path) -> None:
    request = request_in(POOL_KINDS["blob"](1024, tmp_path), ELEMENTS, 128)
    timing = npu.prepare_model(kind.model).execute(request, MEASURED).timing
    assert timing.time_on_device_ns == pytest.approx(npu.assess_model(kind.model).operation_ns[0], abs=1)


@of("ethos_n", "ethos_u")
def test_a_supported_subgraph_is_compiled_as_one(npu: RemoteDevice, kind: Accelerator) -> None:
    views = npu.optimize_subgraph(kind.model)
    (substitution,) = views.substitutions
    assert substitution.operations == (0,)
    assert substitution.replacement.startswith("compiled: 1 operations, ")
    if kind is ACCELERATORS["ethos_n"]:
        assert substitution == Substitution((0,), "compiled: 1 operations, 128 bytes of SRAM, 1 stripes")
    assert not views.failed
    assert not views.untouched


_TOO_LARGE = single(OperationType.SOFTMAX, Q8A, [(1, 2 * SRAM)], [1.0], Operand(Q8A, (), 1 / 256)).model
LACKS = [
    ("ethos_u", _TOO_LARGE, "there are 1,024 of SRAM", "does not fit into 1,024 bytes"),
    ("mlip", long_row(), "bytes of each tile's memory, expected at most 1048576", "expected at most 1048576"),
]


@pytest.mark.parametrize(
    ("endpoint", "model", "failed", "refused"), LACKS, indirect=["endpoint"], ids=["ethos_u", "mlip"]
)
def test_a_network_that_does_not_fit(npu: RemoteDevice, model: Model, failed: str, refused: str) -> None:
    assert npu.supported_operations(model) == [True]
    (failure,) = npu.optimize_subgraph(model).failed
    assert failed in failure.reason
    with pytest.raises(HalError, match=refused) as caught:
        npu.prepare_model(model)
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT


@of("ethos_n")
def test_a_refusal_has_a_hint_and_the_factory_needs_memory_for_fallback(npu: RemoteDevice) -> None:
    model: Model = single(OperationType.MAX_POOL_2D, Q8AS, [(1, 8, 8, 3)], [1, 2, 2, 4, 4, 0]).model
    assert npu.supported_operations(model) == [False]
    (answer,) = npu.assess_model(model).operations
    assert (answer.code, answer.got, answer.allowed) == ("KERNEL", "a window of 4 x 4", "2 x 2 or 3 x 3")
    assert answer.hint
    (factory,) = npu.describe().tensor_handle_factories
    assert (factory.id, factory.fallback_import_memory_required) == ("ethos_n/import", True)
    assert factory.imports == factory.exports == BLOB


@of("mlip")
def test_a_float32_model_that_is_not_relaxed_is_refused_with_the_hint(npu: RemoteDevice) -> None:
    recipe = MlipRecipe(F32)
    strict = recipe.build(recipe.operation(OperationType.RELU, [recipe.tensor((1, 4))], recipe.like())).model
    (answer,) = npu.assess_model(strict).operations
    assert "relaxComputationFloat32toFloat16" in str(answer)


@of("mlip")
@pytest.mark.contract("CC-01", "CC-12")
def test_a_cache_keeps_the_binary_and_another_process_loads_it(endpoint: Endpoint, tmp_path: Path) -> None:
    recipe = MlipRecipe(F16)
    inputs = [recipe.tensor((2, 64)), recipe.weights((32, 64)), recipe.bias(32), *recipe.integers(1)]
    resolved = recipe.finish(recipe.operation(OperationType.FULLY_CONNECTED, inputs, recipe.like(dimensions=(2, 32))))
    sample = Sample(resolved.model, tuple(random_inputs(resolved)))
    with session_with(endpoint) as wire:
        device = CachingDevice(wire)
        entry = device.entry(tmp_path / "entry")
        expected = device.run(device.prepare(sample.model, entry.create()), sample)
    (kept,) = (path.read_bytes() for path in entry.data)
    assert b"MRVL" in kept
    with own_device("mlip", *ACCELERATORS["mlip"].options) as (_, other), session_with(other) as wire:
        device = CachingDevice(wire)
        for got, wanted in zip(device.run(device.restore(entry.open()), sample), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
        damaged = bytearray(kept)
        damaged[kept.index(b"MRVL") + 9000] ^= 1
        entry.data[0].write_bytes(damaged)
        assert device.restore(entry.open()).status == FAILURE
