"""Real processes for tests."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child
from nnhal_hosting.zygote import Zygote

DRIVERS = ("cpu_acc", "cpu_ref", "ethos_n", "ethos_u", "gpu_acc", "mlip", "null", "remote")
WARM_MODULES = (
    "nnhal_devices.host.process",
    *(f"nnhal_devices.{name}.driver" for name in DRIVERS),
    "nnhal_service.process",
    "nnhal_service.model_server",
    "nnhal_dashboard.server",
)
"""What devices, frameworks and dashboards import before they serve."""
_ROOT = Path(__file__).parents[2]


class WarmZygote(Zygote):
    """A zygote whose forks can import the tests, whatever directory a test is in."""

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int]) -> Any:
        with contextlib.chdir(_ROOT) if self._parent is None else contextlib.nullcontext():
            return super()._ask(request, descriptors)


WARM = WarmZygote(WARM_MODULES)
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


@contextmanager
def own_device(driver: str, *options: str) -> Iterator[tuple[Child, Endpoint]]:
    """Run a device process in a directory of its own until the context ends."""
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        device_process(driver, Path(directory), *options) as started,
    ):
        yield started
