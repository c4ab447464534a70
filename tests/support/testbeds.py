"""A framework over devices that a test chooses."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal_client import Framework, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.processes import WARM


@contextmanager
def framework_over(*devices: DeviceEntry) -> Iterator[Framework]:
    """Run a framework and its devices in processes of their own, and open a session with it."""
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        Testbed(Topology(device=devices), Path(directory), zygote=WARM) as testbed,
        connect(testbed.framework) as session,
    ):
        yield session
