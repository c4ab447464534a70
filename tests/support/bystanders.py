"""A session that the misuse of other sessions must not affect."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from tests.support.additions import addition_in_ashmem, addition_model


class Bystander:
    """Executes repeatedly and checks each result. ``runs`` counts the rounds."""

    def __init__(self, device: RemoteDevice) -> None:
        self.runs = 0
        self.device = device
        self._ending = threading.Event()
        self._addition = addition_in_ashmem()
        self._prepared = device.prepare_model(addition_model())
        self._execution = self._prepared.create_reusable_execution(self._addition.request)
        self._burst = self._prepared.configure_execution_burst()

    def run(self) -> None:
        """Execute over a burst, and without one."""
        self._addition.check(lambda: self._burst.run(self._execution), self.runs % 1000, 1)
        self._addition.check(self._execution.execute, self.runs % 1000, 2)
        self.runs += 1

    def run_on(self) -> None:
        """Execute until ``end`` is called."""
        while not self._ending.is_set():
            self.run()

    def end(self) -> None:
        self._ending.set()


@contextmanager
def bystander(endpoint: Endpoint) -> Iterator[Bystander]:
    """Keep a bystander executing in a thread; its errors are raised when the context ends."""
    with RemoteDevice(endpoint, "bystander") as device, ThreadPoolExecutor(1) as pool:
        session = Bystander(device)
        work = pool.submit(session.run_on)
        try:
            yield session
        finally:
            session.end()
        work.result()
    assert session.runs > 0
