"""Compilation caching: cache files, models to cache, and a device that gets both at the level of messages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, NnhalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.remote.device import NO_CACHE, CompilationCache
from nnhal.types import (
    NO_DEADLINE,
    ChannelQuant,
    ErrorStatus,
    Memory,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    OperationType,
    Priority,
    Request,
)
from nnhal.types.layout import ELEMENT_TYPES, byte_size
from nnhal.v1 import device_pb2, types_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from nnhal_conformance.session import DeviceSession
from nnhal_devices.host.sessions.cache import CacheFiles
from tests.support.additions import argument
from tests.support.models import Recipe

TOKEN = bytes(range(32))
OTHER_TOKEN = bytes(range(1, 33))
_F32, _Q8A, _I32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_INT32
_Q8C, _INT8 = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, OperandType.TENSOR_QUANT8_ASYMM_SIGNED


@dataclass(frozen=True)
class Entry:
    """The files of a cache entry."""

    model: tuple[Path, ...]
    data: tuple[Path, ...]
    token: bytes = TOKEN

    @property
    def files(self) -> tuple[Path, ...]:
        """The model-cache files, then the data-cache files."""
        return self.model + self.data

    def open(self, flags: int = os.O_RDWR, but: Path | None = None, but_flags: int = 0) -> CompilationCache:
        """Open all files with ``flags``, except ``but`` with ``but_flags``."""

        def descriptor(path: Path) -> Descriptor:
            return Descriptor(os.open(path, (but_flags if path == but else flags) | os.O_CLOEXEC, 0o600))

        return CompilationCache(tuple(map(descriptor, self.model)), tuple(map(descriptor, self.data)), self.token)

    def create(self) -> CompilationCache:
        """Create all files, or truncate them, and open them."""
        return self.open(os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def read(self) -> list[bytes]:
        return [path.read_bytes() for path in self.files]

    def write(self, contents: Sequence[bytes]) -> None:
        for path, content in zip(self.files, contents, strict=True):
            path.write_bytes(content)


def entry_in(directory: Path, model_files: int = 1, data_files: int = 1, token: bytes = TOKEN) -> Entry:
    """Return an entry with the given number of files of each kind, and make the directory if it is missing."""
    directory.mkdir(exist_ok=True)
    model = tuple(directory / f"model{number}" for number in range(model_files))
    return Entry(model, tuple(directory / f"data{number}" for number in range(data_files)), token)


def held_under(directory: Path, pid: int) -> list[str]:
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # closed in the meantime
            continue
        if target.startswith(str(directory)):
            found.append(target)
    return found


@dataclass(frozen=True)
class Sample:
    """A model, its inputs, and the expected outputs if they are known."""

    model: Model
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Notification:
    """The end of a preparation, with a prepared model if and only if the status is NONE."""

    status: ErrorStatus
    prepared_model: int
    launched: bool


class CachingDevice:
    """A session with a device. It checks the protocol of notifications in every preparation."""

    def __init__(self, wire: DeviceSession) -> None:
        self.wire = wire

    @property
    def files_needed(self) -> tuple[int, int]:
        """Return the answer to getNumberOfCacheFilesNeeded: files for the model, and for data."""
        message = device_pb2.GetNumberOfCacheFilesNeededRequest()
        needed = self.wire.call(self.wire.device.GetNumberOfCacheFilesNeeded, message).number_of_cache_files
        return needed.num_model_cache, needed.num_data_cache

    def entry(self, directory: Path, token: bytes = TOKEN) -> Entry:
        return entry_in(directory, *self.files_needed, token)

    def prepare(
        self,
        model: Model,
        cache: CompilationCache = NO_CACHE,
        deadline_ns: int = NO_DEADLINE,
        priority: Priority = Priority.MEDIUM,
    ) -> Notification:
        """Call prepareModel."""
        message = device_pb2.PrepareModelRequest(
            model=self.wire.model(model),
            preference=types_pb2.EXECUTION_PREFERENCE_FAST_SINGLE_ANSWER,
            priority=types_pb2.Priority.ValueType(priority),
            deadline_ns=deadline_ns,
            model_cache=self._files(cache.model),
            data_cache=self._files(cache.data),
            token=cache.token,
        )
        return _notification(*self.wire.preparation(self.wire.device.PrepareModel, message))

    def restore(self, cache: CompilationCache, deadline_ns: int = NO_DEADLINE) -> Notification:
        """Call prepareModelFromCache."""
        message = device_pb2.PrepareModelFromCacheRequest(
            deadline_ns=deadline_ns,
            model_cache=self._files(cache.model),
            data_cache=self._files(cache.data),
            token=cache.token,
        )
        return _notification(*self.wire.preparation(self.wire.device.PrepareModelFromCache, message))

    def run(self, prepared: Notification, sample: Sample) -> list[Array]:
        """Execute a prepared model and return its outputs as bytes."""
        assert prepared.status == ErrorStatus.NONE
        arrays = [array.reshape(-1).view(np.uint8) for array in sample.inputs]
        main = sample.model.main
        outputs = [main.operands[index] for index in main.output_indexes]
        sizes = [*map(len, arrays), *(byte_size(output.type, output.dimensions) for output in outputs)]
        starts = [0, *accumulate(-(-size // 64) * 64 for size in sizes)]
        memory = create_ashmem(starts[-1])
        pool = open_pool(memory, writable=True)
        ranges = [argument(start, size) for start, size in zip(starts, sizes, strict=False)]
        for given, array in zip(ranges, arrays, strict=False):
            pool.write(given.location.offset, array)
        request = Request(tuple(ranges[: len(arrays)]), tuple(ranges[len(arrays) :]), (memory,))
        message = prepared_pb2.PreparedModelServiceExecuteSynchronouslyRequest(
            prepared_model=prepared.prepared_model,
            request=self.wire.request(request),
            loop_timeout_duration_ns=-1,
            deadline_ns=NO_DEADLINE,
        )
        answer = self.wire.call(self.wire.prepared_model.ExecuteSynchronously, message)
        assert answer.result.output_sufficient_size
        return [pool.read(each.location.offset, each.location.length) for each in request.outputs]

    def check(self, prepared: Notification, sample: Sample) -> None:
        """Check that a prepared model computes the sample's outputs."""
        for got, expected in zip(self.run(prepared, sample), sample.expected, strict=True):
            np.testing.assert_array_equal(got.view(expected.dtype), expected.reshape(-1))

    def _files(self, files: Sequence[Descriptor]) -> list[device_pb2.CacheFile]:
        return [device_pb2.CacheFile(descriptor_id=self.wire.link.issue(file)) for file in files]


def _notification(events: Sequence[device_pb2.Preparation], error: NnhalError | None) -> Notification:
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds in (["launched", "notified"], ["notified"])
    notified = events[-1].notified
    status = ErrorStatus(notified.status)
    launched = len(events) == 2
    if launched:
        assert error is None, str(error)
    else:
        assert isinstance(error, HalError)
        assert error.status == status
    assert (notified.prepared_model != 0) == (status == ErrorStatus.NONE)
    return Notification(status, notified.prepared_model, launched)


def broadcast_sum(code: OperandType) -> Sample:
    """Return the sum of a matrix and a constant row, of floats or of bytes."""
    scale, element = 1.0 if code == _Q8A else 0.0, ELEMENT_TYPES[code]
    recipe = Recipe()
    given, row = recipe.input(code, (4, 8), scale), recipe.constant(code, np.arange(8), scale)
    total = recipe.operation(
        OperationType.ADD, [given, row, *recipe.integers(0)], Operand(code, (4, 8), scale, zero_point=0)
    )
    matrix = np.arange(32).reshape(4, 8)
    totals = (matrix + np.arange(8)).astype(element)
    return Sample(recipe.build(total).model, (matrix.astype(element),), (totals,))


CHAIN = 100


def chain(code: OperandType, operation: OperationType) -> Sample:
    """Return a chain of CHAIN operations, each of which multiplies by one, or adds one."""
    scale, unit = (0.5, 2) if code == _Q8A else (0.0, 1)
    element = ELEMENT_TYPES[code]
    recipe = Recipe()
    value = recipe.input(code, (1, 16), scale)
    one, (none,) = recipe.constant(code, [unit], scale), recipe.integers(0)
    for _ in range(CHAIN):
        value = recipe.operation(operation, [value, one, none], Operand(code, (1, 16), scale))
    end = unit * (1 + (CHAIN if operation == OperationType.ADD else 0))
    given = np.full((1, 16), unit, element)
    return Sample(recipe.build(value).model, (given,), (np.full((1, 16), end, element),))


def convolutional_network() -> Sample:
    """Return a network of floats: convolution, depthwise convolution, mean, fully connected layer, softmax."""
    random = np.random.default_rng(7)

    def weights(*shape: int) -> int:
        return recipe.constant(_F32, random.standard_normal(shape))

    recipe = Recipe()
    image = recipe.input(_F32, (1, 12, 12, 3))
    same, one, relu, none = recipe.integers(1, 1, 1, 0)
    value = recipe.operation(
        OperationType.CONV_2D,
        [image, weights(8, 3, 3, 3), weights(8), same, one, one, relu],
        Operand(_F32, (1, 12, 12, 8)),
    )
    value = recipe.operation(
        OperationType.DEPTHWISE_CONV_2D,
        [value, weights(1, 3, 3, 8), weights(8), same, one, one, one, relu],
        Operand(_F32, (1, 12, 12, 8)),
    )
    value = recipe.operation(
        OperationType.MEAN, [value, recipe.constant(_I32, [1, 2]), one], Operand(_F32, (1, 1, 1, 8))
    )
    value = recipe.operation(
        OperationType.FULLY_CONNECTED, [value, weights(5, 8), weights(5), none], Operand(_F32, (1, 5))
    )
    value = recipe.operation(
        OperationType.SOFTMAX, [value, recipe.constant(OperandType.FLOAT32, 1.0)], Operand(_F32, (1, 5))
    )
    return Sample(recipe.build(value).model, (random.standard_normal((1, 12, 12, 3)).astype(np.float32),))


def per_channel_convolution() -> Sample:
    """Return a convolution of signed bytes, whose filters have a scale for each channel."""
    random = np.random.default_rng(8)
    scales = (0.01, 0.02, 0.03, 0.04)
    exact = tuple(float(np.float32(scale)) for scale in scales)
    recipe = Recipe()
    image = recipe.input(_INT8, (1, 8, 8, 2), 0.05, -3)
    filters = recipe.constant(_Q8C, random.integers(-127, 128, (4, 3, 3, 2)), channels=ChannelQuant(exact, 0))
    bias = recipe.constant(_I32, random.integers(-99, 100, 4))
    same, one, none = recipe.integers(1, 1, 0)
    value = recipe.operation(
        OperationType.CONV_2D,
        [image, filters, bias, same, one, one, none],
        Operand(_INT8, (1, 8, 8, 4), 0.25, 5),
    )
    return Sample(recipe.build(value).model, (random.integers(-128, 128, (1, 8, 8, 2)).astype(np.int8),))


def moved_to_pool(model: Model, pool: Memory) -> Model:
    """Return the model with its inline constants moved to a pool, which must be large enough."""
    open_pool(pool, writable=True).write(0, np.frombuffer(model.operand_values, np.uint8))
    main, *referenced = (
        replace(
            graph,
            operands=tuple(
                replace(operand, lifetime=OperandLifeTime.CONSTANT_POOL)
                if operand.lifetime == OperandLifeTime.CONSTANT_COPY
                else operand
                for operand in graph.operands
            ),
        )
        for graph in (model.main, *model.referenced)
    )
    return replace(model, main=main, referenced=tuple(referenced), operand_values=b"", pools=(pool,))


def opened(entry: Entry, flags: int = os.O_RDWR) -> CacheFiles:
    files = entry.open(flags | os.O_CREAT)
    return CacheFiles(files.model, files.data, files.token)
