"""Fixtures of one device process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_conformance.session import DeviceSession
from nnhal_hosting.supervision import Child
from tests.support.calls import session_with
from tests.support.faulty import FaultyDevice, faulty_device
from tests.support.processes import WARM


@pytest.fixture
def other(cpu_ref: Endpoint) -> Iterator[RemoteDevice]:
    with RemoteDevice(cpu_ref, "other") as remote:
        yield remote


@pytest.fixture
def wire(cpu_ref: Endpoint) -> Iterator[DeviceSession]:
    """Open a session with the shared cpu_ref process, at the level of messages."""
    with session_with(cpu_ref) as session:
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


@pytest.fixture
def warm_single_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have devices that a command starts for itself forked."""
    monkeypatch.setattr("nnhal_tools.up.single.Child", partial(Child, zygote=WARM))
