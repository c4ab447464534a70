"""Files of clients that are large and cost them nothing, as constants and as compilations."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory.mmap_fd import create_file
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus, Model
from nnhal.v1 import device_pb2
from tests.support.additions import addition_of_constant
from tests.support.calls import NO_TOKEN, session_with
from tests.support.processes import device_process
from tests.support.waiting import wait_until

LIMIT = 1 << 20
SPARSE = 1 << 36
_HEADER = struct.Struct("<16s32sQQQ")
"""Of a compilation: the magic, the digest and the lengths of its parts."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
    ):
        patch.setenv("NNHAL_DEVICE_MODEL_BYTES", str(LIMIT))
        with device_process("cpu_acc", Path(directory)) as (_, started):
            yield started


def model_with_constant_in(path: Path, size: int) -> Model:
    """An addition of a constant, at the start of a file of that many zeros."""
    return addition_of_constant(create_file(path, size))


def await_room(device: RemoteDevice, model: Model) -> None:
    """Prepare a model as soon as it fits, and release it."""

    def fits() -> bool:
        try:
            device.prepare_model(model).release()
        except HalError as error:
            assert error.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
            return False
        return True

    wait_until(fits, "the model fits")


def test_a_sparse_pool_of_constants_is_not_copied(endpoint: Endpoint, tmp_path: Path) -> None:
    with RemoteDevice(endpoint, "test") as device:
        with pytest.raises(HalError) as caught:
            device.prepare_model(model_with_constant_in(tmp_path / "sparse", SPARSE))
        assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
        assert caught.value.message.startswith(f"a copy of pool 0, whose file may shrink, takes {SPARSE} bytes; ")
        for number in range(4):  # what is released, counts no more
            await_room(device, model_with_constant_in(tmp_path / f"{number}", LIMIT // 2))


def test_constants_of_prepared_models_count_as_long_as_these_live(endpoint: Endpoint, tmp_path: Path) -> None:
    with RemoteDevice(endpoint, "test") as device:
        first = device.prepare_model(model_with_constant_in(tmp_path / "first", LIMIT // 2))
        with pytest.raises(
            HalError, match=r"of 1048576: .*\(NNHAL_DEVICE_MODEL_BYTES\)|of 1048576 \(NNHAL_DEVICE_MODEL_BYTES\)"
        ):
            device.prepare_model(model_with_constant_in(tmp_path / "second", LIMIT * 3 // 4))
        first.release()
        await_room(device, model_with_constant_in(tmp_path / "third", LIMIT * 3 // 4))


@pytest.mark.parametrize("has_header", [False, True])
def test_sparse_files_are_no_compilation_that_is_read(endpoint: Endpoint, tmp_path: Path, has_header: bool) -> None:
    with session_with(endpoint) as wire:
        needed = wire.call(
            wire.device.GetNumberOfCacheFilesNeeded, device_pb2.GetNumberOfCacheFilesNeededRequest()
        ).number_of_cache_files
        message = device_pb2.PrepareModelFromCacheRequest(deadline_ns=-1, token=NO_TOKEN)
        named = [message.model_cache] * needed.num_model_cache + [message.data_cache] * needed.num_data_cache
        size = 1 << 30 if has_header else SPARSE
        descriptors = [create_file(tmp_path / f"cache{number}", size).descriptor for number in range(len(named))]
        for files, descriptor in zip(named, descriptors, strict=True):
            files.add(descriptor_id=wire.link.issue(descriptor))
        if has_header:
            announced = len(named) * size - _HEADER.size
            os.pwrite(descriptors[0].fileno(), _HEADER.pack(b"nnhal cache 2", b"", announced, 0, 0), 0)
        events, error = wire.preparation(wire.device.PrepareModelFromCache, message)
        assert error is None
        refused = "the cache files have ", "reading the cache files, of which some is copied, takes "
        assert events[-1].notified.message.startswith(refused[has_header])
