"""The rows of the contract about compilation caching, over a device's sockets, with valid and invalid entries."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count, product
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from nnhal.endpoint import Endpoint
from nnhal.memory import open_pool
from nnhal.remote import RemoteDevice
from nnhal.remote.device import CompilationCache
from nnhal.types import ErrorStatus, Model, Operand, OperandType, OperationType
from nnhal_frontends.onnx import import_onnx
from nnhal_frontends.tflite import import_tflite
from tests.support.additions import POOL_KINDS
from tests.support.caching import (
    CachingDevice,
    Entry,
    Notification,
    Sample,
    broadcast_sum,
    chain,
    convolutional_network,
    held_under,
    moved_to_pool,
    per_channel_convolution,
)
from tests.support.calls import session_with
from tests.support.onnx_models import onnx_model
from tests.support.refusals import FAILURE
from tests.support.searching import further
from tests.support.subgraphs import B8, I32, Program

NONE = ErrorStatus.NONE
ROUNDS = further(20)
"""How often files are overwritten."""
GIB = 1 << 30
_MODELS = os.environ.get("NNHAL_MODELS", "")


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    found: Endpoint = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def device(endpoint: Endpoint) -> Iterator[CachingDevice]:
    with session_with(endpoint) as wire:
        yield CachingDevice(wire)


@pytest.fixture
def entry(device: CachingDevice, tmp_path: Path) -> Entry:
    """Return a cache entry whose files do not exist yet."""
    return device.entry(tmp_path / "entry")


@pytest.fixture(params=[OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM], ids=["float32", "quant8"])
def code(request: pytest.FixtureRequest) -> OperandType:
    found: OperandType = request.param
    return found


@pytest.fixture
def sample(code: OperandType) -> Sample:
    return broadcast_sum(code)


@pytest.fixture
def saved(device: CachingDevice, entry: Entry, sample: Sample) -> Entry:
    assert device.prepare(sample.model, entry.create()).status == NONE
    return entry


def assert_no_entry(found: Notification) -> None:
    assert (found.status, found.prepared_model) == (FAILURE, 0)


def test_a_hit_compiles_nothing_on_a_device_that_keeps_what_it_compiled(cpu_acc: Endpoint, tmp_path: Path) -> None:
    with session_with(cpu_acc) as wire, RemoteDevice(cpu_acc) as remote:
        device, sample = CachingDevice(wire), convolutional_network()
        entry = device.entry(tmp_path / "entry")
        start = remote.usage()
        first = device.run(device.prepare(sample.model, entry.create()), sample)
        filled = remote.usage()
        assert (filled.compiled_models - start.compiled_models, filled.restored_models) == (1, start.restored_models)
        again = device.run(device.restore(entry.open()), sample)
        end = remote.usage()
        assert (end.compiled_models, end.restored_models) == (filled.compiled_models, filled.restored_models + 1)
        np.testing.assert_array_equal(first, again)


@pytest.mark.contract("CC-17")
@pytest.mark.parametrize("longer_first", [False, True])
def test_the_second_of_two_models_saved_into_the_same_files_is_restored(
    device: CachingDevice, entry: Entry, code: OperandType, tmp_path: Path, longer_first: bool
) -> None:
    first, second = broadcast_sum(code), chain(code, OperationType.ADD)
    if longer_first:
        first, second = second, first
    alone = device.entry(tmp_path / "alone")
    assert device.prepare(second.model, alone.create()).status == NONE
    cache = entry.create()
    for sample in (first, second):
        device.check(device.prepare(sample.model, cache), sample)
    device.check(device.restore(entry.open()), second)
    assert entry.read() == alone.read()


@pytest.mark.contract("CC-18")
def test_files_may_be_closed_after_the_notification(
    device: CachingDevice, entry: Entry, sample: Sample, endpoint: Endpoint
) -> None:
    link = device.wire.link
    preparations: list[Callable[[CompilationCache], Notification]] = [
        partial(device.prepare, sample.model),
        device.restore,
    ]
    entry.create()
    for prepare in preparations:
        cache = entry.open()
        prepared = prepare(cache)
        numbers = [link.issue(descriptor) for descriptor in cache.model + cache.data]
        for descriptor in cache.model + cache.data:
            descriptor.close()
        link.drop(*numbers)
        device.check(prepared, sample)
        with RemoteDevice(endpoint, "observer") as observer:
            observer.usage()  # makes the device collect garbage
            assert held_under(entry.files[0].parent, observer.pid) == []
        device.check(prepared, sample)


def branches() -> Sample:
    """Return a loop that doubles up to a limit, and then one of two branches with constants of their own."""
    program = Program()
    main, condition, body, small, large = (program.graph() for _ in range(5))
    condition.returns(condition.less(condition.input(), condition.constant([100])))
    value = body.input()
    body.returns(body.add(value, value))
    for branch, addend in ((small, 1000), (large, 2000)):
        branch.returns(branch.add(branch.input(), branch.constant([addend])))
    start, choice = main.input(), main.input(code=B8)
    loop = [main.reference(condition), main.reference(body), start]
    doubled = main.operation(OperationType.WHILE, loop, Operand(I32, (1,)))
    chosen = [choice, main.reference(small), main.reference(large), doubled]
    main.returns(main.operation(OperationType.IF, chosen, Operand(I32, (1,))))
    inputs = (np.array([7], np.int32), np.array([0], np.uint8))
    return Sample(program.model(), inputs, (np.array([2112], np.int32),))


def extended() -> Sample:
    """Return an extension operation between two operations of the HAL."""
    nodes = [
        helper.make_node("Add", ["x", "c"], ["r"]),
        helper.make_node("Erf", ["r"], ["e"]),
        helper.make_node("Tanh", ["e"], ["y"]),
    ]
    x = np.linspace(-1, 1, 600, dtype=np.float32)
    return Sample(import_onnx(onnx_model(nodes, {"x": [600]}, ["y"], {"c": x})).model, (x,))


SAMPLES: dict[str, Callable[[], Sample]] = {
    "convolutional network": convolutional_network,
    "per-channel quantisation": per_channel_convolution,
    "control flow": branches,
    "extension": extended,
    "relaxed": lambda: replace(convolutional_network(), model=relaxed(convolutional_network().model)),
}


INLINE = [name for name in SAMPLES if name != "extension"]
"""The samples whose constants are not in a pool already."""


def relaxed(model: Model) -> Model:
    return replace(model, relax_computation_float32_to_float16=True)


def assert_survives(device: CachingDevice, sample: Sample, entry: Entry, spoil: Callable[[], object]) -> None:
    """Check that a restored model gives the same bytes as the saved one, after the model's own memory is released."""
    prepared = device.prepare(sample.model, entry.create())
    expected = device.run(prepared, sample)
    spoil()
    for got, wanted in zip(device.run(device.restore(entry.open()), sample), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    for output, known in zip(expected, sample.expected, strict=False):
        np.testing.assert_array_equal(output.view(known.dtype), known.reshape(-1))


def supports(endpoint: Endpoint, model: Model) -> bool:
    with RemoteDevice(endpoint, "test") as remote:
        return all(remote.supported_operations(model))


@pytest.mark.contract("CC-01")
@pytest.mark.parametrize(("name", "pool"), [*((name, "none") for name in SAMPLES), *product(INLINE, POOL_KINDS)])
def test_models_of_every_kind_survive_the_cache(
    device: CachingDevice, endpoint: Endpoint, entry: Entry, tmp_path: Path, name: str, pool: str
) -> None:
    sample = SAMPLES[name]()
    if not supports(endpoint, sample.model):
        pytest.skip("the device declines the model")
    spoil: Callable[[], object] = list
    if pool != "none":
        size = len(sample.model.operand_values)
        memory = POOL_KINDS[pool](size, tmp_path)
        sample = replace(sample, model=moved_to_pool(sample.model, memory))
        spoil = partial(open_pool(memory, writable=True).write, 0, np.full(size, 0x55, np.uint8))
    assert_survives(device, sample, entry, spoil)


@pytest.mark.skipif(not _MODELS, reason="NNHAL_MODELS names no folder of TFLite networks")
def test_a_network_survives_the_cache(device: CachingDevice, entry: Entry) -> None:
    model = import_tflite((Path(_MODELS) / "mobilenet_v1_0.25_96.tflite").read_bytes()).model
    (index,) = model.main.input_indexes
    image = np.random.default_rng(3).integers(-128, 128, model.main.operands[index].dimensions, np.int8)
    assert_survives(device, Sample(model, (image,)), entry, list)


def test_many_threads_save_and_restore_at_the_same_time(
    device: CachingDevice, endpoint: Endpoint, code: OperandType, tmp_path: Path
) -> None:
    """Each thread has its own session and its own entry, and all share another entry."""
    sums, shared = chain(code, OperationType.ADD), device.entry(tmp_path / "shared")
    shared.create()
    numbers, failures = count(), []

    def work() -> None:
        own = device.entry(tmp_path / f"own{next(numbers)}")
        try:
            with session_with(endpoint) as session:
                asked = CachingDevice(session)
                for _ in range(5):
                    asked.check(asked.prepare(sums.model, own.create()), sums)
                    asked.check(asked.restore(own.open()), sums)
                    asked.check(asked.prepare(sums.model, shared.open()), sums)
                    restored = asked.restore(shared.open())
                    if restored.status == NONE:
                        asked.check(restored, sums)
                    else:
                        assert_no_entry(restored)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
