"""Real processes for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child
from nnhal_hosting.zygote import Zygote

WARM = Zygote(
    [
        "nnhal_devices.host.process",
        *(f"nnhal_devices.{name}.driver" for name in ("cpu_acc", "cpu_ref", "ethos_n", "ethos_u", "gpu_acc", "mlip")),
        "nnhal_service.process",
        "nnhal_service.model_server",
    ]
)
"""Forks the processes of tests that do not look at how a process starts."""


@contextmanager
def device_process(driver: str, directory: Path, *options: str) -> Iterator[tuple[Child, Endpoint]]:
    """Run a device process under ``directory`` until the context ends."""
    endpoint = Endpoint(directory / driver)
    child = Child("nnhal_devices", [driver, "--endpoint", str(endpoint.directory), *options], zygote=WARM)
    try:
        child.wait_until_ready()
        yield child, endpoint
    finally:
        child.stop()
