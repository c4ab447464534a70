"""A framework over devices that a test chooses, and devices of it that are killed."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from nnhal_client import Framework, connect
from nnhal_tools.up import DEFAULT_TOPOLOGY, DeviceEntry, Testbed, Topology
from nnhal_tools.up.fault_options import NO_FAULTS, FaultOptions
from tests.support.processes import WARM
from tests.support.waiting import wait_until

_CLIENTS = 2


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


def kill_under_load(framework: Framework, device: str, run: Callable[[], None], is_back: Callable[[], bool]) -> None:
    """Kill a device while clients ``run`` again and again, and wait until runs are on it again.

    ``run`` checks its results. ``is_back`` runs, and says whether the device took part.
    """
    stop = threading.Event()

    def run_until_told() -> int:
        count = 0
        while not stop.is_set():
            run()
            count += 1
        return count

    with ThreadPoolExecutor(_CLIENTS) as clients:
        running = [clients.submit(run_until_told) for _ in range(_CLIENTS)]
        try:
            (pid,) = (each.pid for each in framework.devices() if each.name == device)
            assert is_back()
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: pid not in {each.pid for each in framework.devices()}, "the device is started again")
            wait_until(is_back, "runs are on the device again")
        finally:
            stop.set()
        assert all(each.result() > 0 for each in running)


def kill_for_good(testbed: Testbed, name: str) -> None:
    """Kill a process of a testbed, which would start it again, and perhaps before the test goes on."""
    child = testbed.process(name).leave()
    assert child is not None, f"{name} was stopped before"
    child.process.send_signal(signal.SIGKILL)
    child.process.wait()
