"""A device is killed while clients run a model."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from nnhal_client import Framework
from tests.support.waiting import wait_until

_CLIENTS = 2


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
