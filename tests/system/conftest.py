"""Fixtures of the whole system: devices, framework and client in separate processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nnhal_client import Framework, connect
from nnhal_tools.up import Testbed
from tests.support.model_server import Devices, devices
from tests.support.testbeds import own_testbed


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    """Run shared processes of cpu_acc, cpu_ref and a framework. A test that disturbs them starts its own."""
    with own_testbed() as bed:
        yield bed


@pytest.fixture(scope="session")
def device_processes() -> Iterator[Devices]:
    """Run cpu_acc and cpu_ref for all frameworks that serve a repository."""
    with devices() as started:
        yield started


@pytest.fixture
def framework(testbed: Testbed) -> Iterator[Framework]:
    with connect(testbed.framework) as session:
        yield session
