"""Threads that numpy computes with in a device process."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal.remote import RemoteDevice
from tests.support.additions import addition_model
from tests.support.processes import device_process

TELLING = """
from threadpoolctl import threadpool_info
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal.support import Unsupported

BACKEND_ID = "Telling"
API_VERSION = (1, 0)


class Telling(CpuRef):
    def supported_operations(self, model):
        threads = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        return [Unsupported("NO_IMPL", f"threads {threads}", "none") for _ in model.model.main.operations]


def create_backend(options):
    return Telling(options)
"""
"""A driver that refuses all operations, and says with how many threads numpy's BLAS would have computed them."""


@pytest.mark.parametrize("threads", [1, 2])
def test_numpy_uses_as_many_threads_as_one_execution_may(short_path: Path, threads: int) -> None:
    (short_path / "Acme_Telling_backend.py").write_text(TELLING)
    options = ("--backend-path", str(short_path), "--threads", str(threads))
    with device_process("Telling", short_path, *options) as (_, endpoint), RemoteDevice(endpoint, "test") as device:
        (answer,) = device.assess_model(addition_model()).operations
    assert answer.got == f"threads {{{threads}}}"
