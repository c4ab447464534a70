"""A server that is used well and badly at once answers rightly, and keeps nothing of it.

NNHAL_SOAK_SECONDS says how long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc

from tests.support import soak
from tests.support.caching import held_under
from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import numbers, onnx_file, write
from tests.support.resources import Resources, resident_bytes, resources_of, threads_of
from tests.support.served_models import write_models
from tests.support.tritonclients import Triton
from tests.support.waiting import settled

SECONDS = float(os.environ.get("NNHAL_SOAK_SECONDS", "4"))
SLACK_BYTES = 48 << 20
"""What allocators and pools of threads may keep, however long it takes."""
SLACK_DESCRIPTORS = 24
"""Connections that have not ended yet."""
SLACK_MAPPINGS = 4
"""Memory of instances, of which a model keeps as many as have been needed at a time."""
SPARE_THREADS = 8
"""What pools of threads may still come to, which make theirs when all others are busy."""
ROUNDS = 40
ROUNDS_SLACK_BYTES = 4 << 20
"""Bytes that may be left of 40 models, of which each would leave some 100 KiB."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 2 * SECONDS)]


@pytest.fixture
def fresh(device_processes: Devices, tmp_path: Path) -> Iterator[Served]:
    with model_server(device_processes, write_models(tmp_path), "--allow-client-shm") as process:
        yield process


def held(pids: list[int]) -> list[Resources]:
    """Descriptors and mappings, when nothing changes any more."""
    return settled(lambda: [resources_of(pid) for pid in pids])


def test_good_and_bad_clients_together_are_served_rightly_and_leave_nothing(
    fresh: Served, device_processes: Devices
) -> None:
    pids = [fresh.pid, *device_processes.pids.values()]
    with soak.misbehaving(fresh):
        soak.behave(fresh, SECONDS)
    soak.reload_models(fresh)
    before = held(pids)
    memory = [resident_bytes(pid) for pid in pids]
    with soak.misbehaving(fresh):
        soak.behave(fresh, SECONDS)
    soak.reload_models(fresh)
    for now, then in zip(held(pids), before, strict=True):
        assert now.memfd_mappings < then.memfd_mappings + SLACK_MAPPINGS
        assert sum(now.descriptors.values()) < sum(then.descriptors.values()) + SLACK_DESCRIPTORS
    assert held_under(Path("/dev/shm"), fresh.pid) == []
    for pid, then_bytes in zip(pids, memory, strict=True):
        assert resident_bytes(pid) < then_bytes + SLACK_BYTES


def test_40_loads_and_unloads_over_the_protocol_leave_everything_as_it_was(
    fresh: Served, device_processes: Devices
) -> None:
    write(fresh.repository, "m", {"1/model.onnx": onnx_file(), "config.pbtxt": "max_batch_size: 4 dynamic_batching {}"})
    pids = [fresh.pid, *device_processes.pids.values()]
    with Triton("grpc", tritonclient.grpc, fresh.grpc) as triton:

        def rounds(count: int) -> None:
            for _ in range(count):
                triton.client.load_model("m")
                answer = triton.infer("m", {"x": numbers()}).as_numpy("y")
                np.testing.assert_allclose(answer, np.tanh(numbers()), atol=1e-5)
                triton.client.unload_model("m")

        rounds(ROUNDS // 4)  # what is made once is there
        before, threads = held(pids), [threads_of(pid) for pid in pids]
        memory = [resident_bytes(pid) for pid in pids]
        rounds(ROUNDS)
        assert held(pids) == before
        for pid, then_threads in zip(pids, threads, strict=True):
            assert threads_of(pid) < then_threads + SPARE_THREADS
        for pid, then in zip(pids, memory, strict=True):
            assert resident_bytes(pid) < then + ROUNDS_SLACK_BYTES
