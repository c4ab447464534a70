"""Fixtures of the whole system: devices, framework and client in processes of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal_client import Framework, connect
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed
from tests.support.front_door import Devices, devices


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    """cpu_acc, cpu_ref and a framework that all tests share; a test that harms them starts its own."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, Testbed(DEFAULT_TOPOLOGY, Path(directory)) as bed:
        yield bed


@pytest.fixture(scope="session")
def device_processes() -> Iterator[Devices]:
    """cpu_acc and cpu_ref, for all frameworks that serve a repository."""
    with devices() as started:
        yield started


@pytest.fixture
def framework(testbed: Testbed) -> Iterator[Framework]:
    """A session with the shared framework."""
    with connect(testbed.framework) as session:
        yield session
