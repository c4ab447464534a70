"""Fixtures of a client and a device whose answers come from the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from tests.support.scripted import OnBurst, Script, ScriptedDevice, Serve


@pytest.fixture
def scripted(short_path: Path) -> Iterator[Serve]:
    """Serve a script and open a session with it. Both end with the test."""
    with ExitStack() as stack:

        def serve(script: Script | None = None, on_burst: OnBurst | None = None) -> tuple[RemoteDevice, ScriptedDevice]:
            endpoint = Endpoint(short_path / "scripted")
            device = stack.enter_context(ScriptedDevice(endpoint, script, on_burst))
            return stack.enter_context(RemoteDevice(endpoint, "test")), device

        yield serve
