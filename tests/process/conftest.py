"""Fixtures of one device process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from tests.support.wire import WireDevice


@pytest.fixture
def other(cpu_ref: Endpoint) -> Iterator[RemoteDevice]:
    """A second session with the shared cpu_ref process."""
    with RemoteDevice(cpu_ref, "other") as remote:
        yield remote


@pytest.fixture
def wire(cpu_ref: Endpoint) -> Iterator[WireDevice]:
    """A session with the shared cpu_ref process, at the level of messages."""
    with WireDevice(cpu_ref) as session:
        yield session
