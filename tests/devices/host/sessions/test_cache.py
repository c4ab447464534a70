from __future__ import annotations

import gc
import os
import struct
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.memory import CopyBudget
from nnhal.resolved import ResolvedModel
from nnhal.types import (
    NO_DEADLINE,
    ExecutionConfig,
    ExecutionPreference,
    Model,
    NumberOfCacheFiles,
    Operand,
    OperandType,
    OperationType,
    Priority,
)
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Argument, BoundWorkload, DriverOptions, PrepareOptions
from nnhal_devices.host.sessions import cache
from nnhal_devices.host.sessions.cache import CacheFiles, read_header, save
from nnhal_devices.host.sessions.hosted_device import HostedDevice, Preparation
from nnhal_devices.host.sessions.models import ValidModel, resolve
from nnhal_devices.host.settings import DeviceSettings
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.caching import OTHER_TOKEN, Entry, convolutional_network, entry_in, opened
from tests.support.device_trials import Nobody
from tests.support.models import Recipe
from tests.support.refusals import FAILURE, refusal

VERSION = "driver-1"
COPIES = CopyBudget(1 << 30, "of the test")
HEADER_BYTES = 72
GIB = 1 << 30
OPTIONS = PrepareOptions(ExecutionPreference.SUSTAINED_SPEED, Priority.HIGH)
COUNTS = [counts for counts in product((0, 1, 2, 32), repeat=2) if counts != (0, 0)]


def load(files: CacheFiles, version: str, deadline_ns: int) -> tuple[Model, PrepareOptions]:
    """Read an entry as a device does."""
    return cache.load(files, read_header(files), version, deadline_ns, COPIES)


def resolved() -> ResolvedModel:
    """Something to save, with a model and constants of some length."""
    return resolve(convolutional_network().model)


def assert_equal(one: ResolvedModel, other: ResolvedModel) -> None:
    """Two models are the same, wherever their constants lie."""
    for first, second in zip(one.constants, other.constants, strict=True):
        assert first.keys() == second.keys()
        for index, value in first.items():
            np.testing.assert_array_equal(value, second[index])
            assert value.dtype == second[index].dtype
    for first_graph, second_graph in zip(one.subgraphs, other.subgraphs, strict=True):
        assert first_graph.operations == second_graph.operations
        assert [o.type for o in first_graph.operands] == [o.type for o in second_graph.operands]
        assert [o.dimensions for o in first_graph.operands] == [o.dimensions for o in second_graph.operands]


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    found = entry_in(tmp_path)
    save(opened(found), VERSION, resolved(), OPTIONS)
    return found


def assert_nothing(entry: Entry, version: str = VERSION) -> None:
    refusal(lambda: load(opened(entry), version, NO_DEADLINE), FAILURE)


@pytest.mark.parametrize(("model_files", "data_files"), COUNTS)
def test_any_number_of_files_serves(tmp_path: Path, model_files: int, data_files: int) -> None:
    entry, original = entry_in(tmp_path, model_files, data_files), resolved()
    save(opened(entry), VERSION, original, OPTIONS)
    model, options = load(opened(entry), VERSION, 123)
    assert_equal(resolve(model), original)
    assert options == replace(OPTIONS, deadline_ns=123)


@pytest.mark.parametrize(("model_files", "data_files"), COUNTS)
def test_a_model_without_constants_serves_too(tmp_path: Path, model_files: int, data_files: int) -> None:
    recipe = Recipe()
    code = OperandType.TENSOR_FLOAT32
    given = recipe.input(code, (1,))
    original = recipe.build(recipe.operation(OperationType.RELU, [given], Operand(code, (1,))))
    entry = entry_in(tmp_path, model_files, data_files)
    save(opened(entry), VERSION, original, OPTIONS)
    model, _ = load(opened(entry), VERSION, NO_DEADLINE)
    assert_equal(resolve(model), original)


@pytest.mark.contract("CC-12", "CC-14")
def test_every_single_bit_counts(tmp_path: Path) -> None:
    entry = entry_in(tmp_path)
    save(opened(entry), VERSION, resolve(addition_model()), OPTIONS)
    files, tried = opened(entry), 0
    for descriptor, content in zip(files.model + files.data, entry.read(), strict=True):
        for position, bit in product(range(len(content)), range(8)):
            os.pwrite(descriptor.fileno(), bytes([content[position] ^ 1 << bit]), position)
            refusal(lambda: load(files, VERSION, NO_DEADLINE), FAILURE)
            os.pwrite(descriptor.fileno(), content[position : position + 1], position)
            tried += 1
    assert tried == 8 * sum(map(len, entry.read()))
    load(files, VERSION, NO_DEADLINE)


@pytest.mark.contract("CC-16")
def test_another_version_or_token_is_another_entry(entry: Entry) -> None:
    for version in ("driver-2", "driver-", "driver-11", ""):
        assert_nothing(entry, version)
    assert_nothing(replace(entry, token=OTHER_TOKEN))
    load(opened(entry), VERSION, NO_DEADLINE)


def test_bytes_that_move_from_one_file_to_the_next_are_noticed(tmp_path: Path) -> None:
    entry = entry_in(tmp_path, 2, 2)
    save(opened(entry), VERSION, resolved(), OPTIONS)
    good = entry.read()
    for first in range(3):
        moved = list(good)
        moved[first], moved[first + 1] = good[first][:-1], good[first][-1:] + good[first + 1]
        entry.write(moved)
        assert_nothing(entry)
        moved[first], moved[first + 1] = good[first] + good[first + 1][:1], good[first + 1][1:]
        entry.write(moved)
        assert_nothing(entry)
    entry.write([good[0], good[1], good[3], good[2]])
    assert_nothing(entry)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A file system that takes so many more bytes."""
    write = os.pwrite

    def limit(room: int) -> None:
        def pwrite(fd: int, data: memoryview, offset: int) -> int:
            nonlocal room
            if not room:
                raise OSError(28, "No space left on device")
            count = write(fd, data[:room], offset)
            room -= count
            return count

        monkeypatch.setattr(os, "pwrite", pwrite)

    return limit


@pytest.mark.parametrize("earlier", [False, True])
def test_a_save_that_is_interrupted_at_any_byte_leaves_no_entry(
    tmp_path: Path, full: Callable[[int], None], earlier: bool
) -> None:
    entry, model = entry_in(tmp_path, 2, 1), resolve(addition_model())
    save(opened(entry), VERSION, model, OPTIONS)
    good = entry.read()
    total, incomplete = sum(map(len, good)), 0
    for room in range(total):
        entry.write(good if earlier else [b""] * 3)
        full(room)
        save(opened(entry), VERSION, model, OPTIONS)
        if entry.read() != good:  # the last bytes of the header are 0, as is a hole
            assert_nothing(entry)
            incomplete += 1
    assert incomplete > total - 8
    full(total)
    save(opened(entry), VERSION, model, OPTIONS)
    assert entry.read() == good


def test_whatever_goes_wrong_with_a_save_is_kept_from_the_preparation(
    entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(entry)
    files.data[0].close()
    save(files, VERSION, resolved(), OPTIONS)
    assert_nothing(entry)

    def fail(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(cache, "_divided", fail)
    save(opened(entry), VERSION, resolved(), OPTIONS)
    assert_nothing(entry)


def test_a_save_that_fails_holds_nothing_afterwards() -> None:
    reading, writing = (Descriptor(end) for end in os.pipe())
    model, kept = resolved(), weakref.ref(reading)
    gc.collect()
    gc.disable()
    try:
        save(CacheFiles((reading,), (writing,), bytes(32)), VERSION, model, PrepareOptions())
        del reading, writing
        assert kept() is None
    finally:
        gc.enable()


def test_a_file_that_is_truncated_while_it_is_read_is_refused(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    read, good = os.pread, entry.read()
    last, reads = 0, 0

    def pread(fd: int, count: int, offset: int) -> bytes:
        nonlocal reads
        piece = read(fd, min(count, 100), offset)
        reads += 1
        if reads == last:
            os.ftruncate(fd, offset + len(piece))
        return piece

    monkeypatch.setattr(os, "pread", pread)
    load(opened(entry), VERSION, NO_DEADLINE)  # in small pieces, undisturbed
    pieces, refused = reads, 0
    assert pieces > 10
    for number in range(1, pieces + 1):
        reads, last = 0, number
        entry.write(good)
        try:
            load(opened(entry), VERSION, NO_DEADLINE)
        except HalError as error:
            assert error.status == FAILURE
            refused += 1
        else:
            assert entry.read() == good  # behind its last piece there is nothing to take away from a file
    assert refused == pieces - 2


@pytest.mark.contract("CC-10")
def test_what_was_read_is_used_whatever_becomes_of_the_files(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.pread

    def pread(fd: int, count: int, offset: int) -> bytes:
        piece = read(fd, count, offset)
        os.pwrite(fd, bytes(byte ^ 0xFF for byte in piece), offset)
        return piece

    monkeypatch.setattr(os, "pread", pread)
    model, _ = load(opened(entry), VERSION, NO_DEADLINE)
    assert_equal(resolve(model), resolved())
    assert_nothing(entry)


@pytest.mark.contract("CC-09")
@pytest.mark.parametrize("number", range(4))
def test_an_entry_that_is_overwritten_between_two_writes_is_never_taken_for_the_one_that_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write, entry, other = os.pwrite, entry_in(tmp_path / "one"), entry_in(tmp_path / "other", token=OTHER_TOKEN)
    save(opened(other), VERSION, resolve(addition_model()), OPTIONS)
    foreign = other.read()
    written = 0

    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        nonlocal written
        if written == number:
            entry.write(foreign)
        written += 1
        return write(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    save(opened(entry), VERSION, resolved(), OPTIONS)
    assert written == 3  # the model, the constants, the header
    if number in (0, written):  # before all of it, where nothing is left of it; never
        model, _ = load(opened(entry), VERSION, NO_DEADLINE)
        assert_equal(resolve(model), resolved())
    else:
        assert_nothing(entry)


@pytest.mark.parametrize("grow", ["model", "data"])
def test_files_longer_than_the_header_says_are_not_read(
    entry: Entry, monkeypatch: pytest.MonkeyPatch, grow: str
) -> None:
    os.truncate((entry.model if grow == "model" else entry.data)[0], 3 * GIB)
    assert read_bytes(entry, monkeypatch) == HEADER_BYTES


def test_an_entry_that_is_longer_than_any_may_be_is_not_read(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """However well its header fits."""
    header = bytearray(entry.model[0].read_bytes()[:HEADER_BYTES])
    for path in entry.files:
        os.truncate(path, 3 * GIB)
    struct.pack_into("<QQQ", header, HEADER_BYTES - 24, 3 * GIB - HEADER_BYTES, 0, 3 * GIB)
    with entry.model[0].open("r+b") as file:
        file.write(header)
    assert read_bytes(entry, monkeypatch) == HEADER_BYTES


def read_bytes(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how much is read of an entry that is none."""
    read, total = os.pread, 0

    def pread(fd: int, count: int, offset: int) -> bytes:
        nonlocal total
        total += count
        return read(fd, min(count, 1 << 20), offset)

    monkeypatch.setattr(os, "pread", pread)
    assert_nothing(entry)
    return total


class Compiled:
    """A workload that has been compiled into something."""

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        raise AssertionError(inputs, outputs)

    def artifact(self) -> bytes:
        return b"compiled"


@pytest.mark.parametrize(("model_files", "data_files"), COUNTS)
def test_what_a_model_was_compiled_into_is_kept_with_it(tmp_path: Path, model_files: int, data_files: int) -> None:
    entry, original = entry_in(tmp_path, model_files, data_files), resolved()
    save(opened(entry), VERSION, original, OPTIONS, Compiled())
    model, options = load(opened(entry), VERSION, NO_DEADLINE)
    assert_equal(resolve(model), original)
    assert options == replace(OPTIONS, artifact=b"compiled")


class Declined(Compiled):
    """A workload that is made as fast as it would be read."""

    def artifact(self) -> None:  # type: ignore[override]
        return None


def weighty() -> ResolvedModel:
    """A model with a constant of 2 MiB."""
    recipe = Recipe()
    code = OperandType.TENSOR_FLOAT32
    given, weights = recipe.input(code, (1 << 19,)), recipe.constant(code, np.arange(1 << 19))
    total = recipe.operation(OperationType.ADD, [given, weights, *recipe.integers(0)], Operand(code, (1 << 19,)))
    return recipe.build(total)


@pytest.mark.parametrize("workload", [None, Compiled()], ids=["the model alone", "an artifact"])
def test_an_entry_that_would_take_long_beside_the_compilation_is_not_kept(
    entry: Entry, workload: Compiled | None
) -> None:
    model = weighty()
    save(opened(entry), VERSION, model, OPTIONS, workload, compile_ns=10**9)
    load(opened(entry), VERSION, NO_DEADLINE)
    save(opened(entry), VERSION, model, OPTIONS, workload, compile_ns=10**6)
    assert entry.read() == [b"", b""]  # nothing of the earlier entry either
    assert_nothing(entry)


def test_a_small_entry_is_kept_however_fast_the_model_was_compiled(entry: Entry) -> None:
    save(opened(entry), VERSION, resolved(), OPTIONS, compile_ns=0)
    load(opened(entry), VERSION, NO_DEADLINE)


def test_nothing_is_kept_of_a_model_that_its_driver_declines_to_cache(entry: Entry) -> None:
    save(opened(entry), VERSION, resolved(), OPTIONS, Declined(), compile_ns=10**9)
    assert entry.read() == [b"", b""]


@pytest.mark.parametrize(("model_files", "data_files"), COUNTS)
def test_constants_that_an_artifact_replaces_are_left_out(tmp_path: Path, model_files: int, data_files: int) -> None:
    entry, original = entry_in(tmp_path, model_files, data_files), resolved()
    replaced = [index for index, value in original.constants[0].items() if value.nbytes > 100]
    assert 0 < len(replaced) < len(original.constants[0])
    save(opened(entry), VERSION, original, OPTIONS, Compiled(), replaced=replaced)
    shorter = sum(map(len, entry.read()))
    files = opened(entry)
    model, options = cache.load(files, read_header(files), VERSION, NO_DEADLINE, COPIES, restores=True)
    assert options.artifact == b"compiled"
    zeros = {index: np.zeros_like(value) for index, value in original.constants[0].items() if index in replaced}
    assert_equal(resolve(model), replace(original, constants=(dict(original.constants[0]) | zeros,)))
    save(opened(entry), VERSION, original, OPTIONS, Compiled())
    assert shorter < sum(map(len, entry.read()))


def test_a_driver_that_cannot_restore_an_artifact_is_given_the_model_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, device = entry_in(tmp_path), HostedDevice(CpuAcc(DriverOptions()), DeviceSettings())
    model = ValidModel.of(convolutional_network().model)
    device.launch(model, Preparation(cache=opened(entry)), Nobody())()
    device.launch_from_cache(opened(entry), NO_DEADLINE, Nobody())()
    monkeypatch.setattr(CpuAcc, "restore", lambda *_: None)
    refusal(device.launch_from_cache(opened(entry), NO_DEADLINE, Nobody()), FAILURE, "made on another machine")


def test_a_driver_is_given_what_it_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, given = entry_in(tmp_path), list[bytes]()

    def prepare(driver: CpuRef, model: ResolvedModel, options: PrepareOptions) -> Compiled:
        given.append(options.artifact)
        return Compiled()

    monkeypatch.setattr(CpuRef, "prepare", prepare)
    device = HostedDevice(CpuRef(), DeviceSettings())
    device.launch(ValidModel.of(addition_model()), Preparation(cache=opened(entry)), Nobody())()
    device.launch_from_cache(opened(entry), NO_DEADLINE, Nobody())()
    assert given == [b"", b"compiled"]


@pytest.fixture
def device() -> HostedDevice:
    return HostedDevice(CpuRef(), DeviceSettings())


def test_the_options_of_the_preparation_are_those_of_the_restored_model(device: HostedDevice, tmp_path: Path) -> None:
    entry = entry_in(tmp_path)
    arguments = Preparation(priority=Priority.HIGH, cache=opened(entry))
    assert device.launch(ValidModel.of(addition_model()), arguments, Nobody())().priority == Priority.HIGH
    assert device.launch_from_cache(opened(entry), NO_DEADLINE, Nobody())().priority == Priority.HIGH


def test_a_device_without_caching_prepares_and_leaves_the_files_alone(entry: Entry) -> None:
    driver, addition, before = CpuRef(), addition_in_ashmem(), entry.read()
    driver.number_of_cache_files = NumberOfCacheFiles()
    device = HostedDevice(driver, DeviceSettings())
    prepared = device.launch(ValidModel.of(addition_model()), Preparation(cache=opened(entry)), Nobody())()
    bound = prepared.bind(addition.request, ExecutionConfig())
    addition.check(lambda: bound.run(NO_DEADLINE), 1, 2)
    assert entry.read() == before
    refusal(lambda: device.launch_from_cache(opened(entry), NO_DEADLINE, Nobody()), FAILURE, "no compilation caching")
