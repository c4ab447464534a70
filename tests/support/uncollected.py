"""A device process without garbage collection: it never collects by itself, and a collection that is asked for ends it.

What it says that it holds is then exact without one, or the test fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal.endpoint import Endpoint
from tests.support.processes import device_process

NAME = "Uncollected"
_BACKEND = """
import gc
import os

from nnhal_devices.registry import create_driver

BACKEND_ID = {name!r}
API_VERSION = (1, 0)


def create_backend(options):
    driver = create_driver({driver!r}, options)
    gc.disable()
    gc.callbacks.append(lambda phase, info: os.abort())
    return driver
"""


@contextmanager
def uncollected_device(driver: str, directory: Path) -> Iterator[Endpoint]:
    """Serve a driver in such a process, which ends with the context."""
    backends = directory / "backends"
    backends.mkdir()
    (backends / "Test_Uncollected_backend.py").write_text(_BACKEND.format(name=NAME, driver=driver))
    with device_process(NAME, directory, "--backend-path", str(backends)) as (_, endpoint):
        yield endpoint
