"""Fixtures of one device process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from tests.support.faulty import FaultyDevice, faulty_device
from tests.support.processes import warm_processes
from tests.support.wire import WireDevice


@pytest.fixture(autouse=True, scope="session")
def _warm_processes() -> Iterator[None]:
    """Fork the processes that a command or a testbed starts in this one."""
    with warm_processes():
        yield


@pytest.fixture
def other(cpu_ref: Endpoint) -> Iterator[RemoteDevice]:
    with RemoteDevice(cpu_ref, "other") as remote:
        yield remote


@pytest.fixture
def wire(cpu_ref: Endpoint) -> Iterator[WireDevice]:
    """A session with the shared cpu_ref process, at the level of messages."""
    with WireDevice(cpu_ref) as session:
        yield session


@pytest.fixture(scope="session")
def device_with_faults() -> Iterator[FaultyDevice]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, faulty_device(Path(directory)) as device:
        yield device


@pytest.fixture
def faulty(device_with_faults: FaultyDevice) -> Iterator[FaultyDevice]:
    """The shared device, without faults before and after a test."""
    yield device_with_faults
    device_with_faults.control.clear()
