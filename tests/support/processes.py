"""Real processes for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child


@contextmanager
def device_process(driver: str, directory: Path, *options: str) -> Iterator[tuple[Child, Endpoint]]:
    """Run a device process under ``directory`` until the context ends."""
    endpoint = Endpoint(directory / driver)
    child = Child("nnhal_devices", [driver, "--endpoint", str(endpoint.directory), *options])
    try:
        child.wait_until_ready()
        yield child, endpoint
    finally:
        child.stop()
