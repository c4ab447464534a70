"""Loading and unloading a model many times on a device process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_service.repository import ControlMode, Opener, Repository, RepositoryOptions
from nnhal_service.runtime import Fleet
from nnhal_service.serving import InferenceRequest
from tests.support.repositories import numbers, onnx_file, write
from tests.support.resources import resident_bytes, resources_of, threads_of
from tests.support.serving import serve_model
from tests.support.waiting import settled

ROUNDS = 60
SLACK_BYTES = 4 << 20
"""Bytes that the allocator may keep after 60 models; a leak of each would be some 100 KiB."""
SPARE_THREADS = 8
"""What thread pools may still grow by: they start a thread when all others are busy."""


@pytest.mark.slow
def test_60_loads_and_unloads_leave_descriptors_mappings_and_memory_as_they_were(
    cpu_ref: Endpoint, tmp_path: Path
) -> None:
    write(tmp_path, "m", {"1/model.onnx": onnx_file(), "config.pbtxt": "max_batch_size: 4 dynamic_batching {}"})
    fleet = Fleet({"cpu_ref": cpu_ref})
    with RemoteDevice(cpu_ref, "test") as device:
        processes = (os.getpid(), device.pid)
    options = RepositoryOptions((tmp_path,), ControlMode.EXPLICIT)
    with Repository(options, Opener(fleet, serve_model).open) as repository:

        def rounds(count: int) -> None:
            for _ in range(count):
                repository.load("m")
                with repository.model("m") as lease:
                    lease.model.infer_and_wait(InferenceRequest({"x": numbers()})).release()
                repository.unload("m")

        def seen(look: Callable[[int], object]) -> list[object]:
            return settled(lambda: [look(pid) for pid in processes])

        rounds(ROUNDS // 4)  # so that what is made only once exists
        descriptors = seen(resources_of)
        threads = [threads_of(pid) for pid in processes]
        memory = [resident_bytes(pid) for pid in processes]
        rounds(ROUNDS)
        assert seen(resources_of) == descriptors
        for now, then in zip(map(threads_of, processes), threads, strict=True):
            assert now < then + SPARE_THREADS
        for pid, before in zip(processes, memory, strict=True):
            assert resident_bytes(pid) < before + SLACK_BYTES
    fleet.close()
