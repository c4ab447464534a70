"""A framework over devices that a test chooses."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal_client import Framework, connect
from nnhal_tools.up import DEFAULT_TOPOLOGY, DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import NO_FAULTS, FaultOptions
from tests.support.processes import WARM


@contextmanager
def own_testbed(topology: Topology = DEFAULT_TOPOLOGY, faults: FaultOptions = NO_FAULTS) -> Iterator[Testbed]:
    """Run a framework and its devices in processes and a directory of their own."""
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        Testbed(topology, Path(directory), faults=faults, zygote=WARM) as testbed,
    ):
        yield testbed


@contextmanager
def framework_over(*devices: DeviceEntry) -> Iterator[Framework]:
    """Run a framework and its devices in processes of their own, and open a session with it."""
    with own_testbed(Topology(device=devices)) as testbed, connect(testbed.framework) as session:
        yield session
