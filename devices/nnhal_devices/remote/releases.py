"""Releasing objects of the device, and cancelling runs there, beside the threads that run."""

from __future__ import annotations

import itertools
import queue
import threading
from contextlib import suppress

from nnhal.errors import HalError
from nnhal.threads import LastingThread
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.driver import Control
from nnhal_devices.remote.connection import WireConnection

_LOOK_SECONDS = 0.05


class Releases:
    """Releases objects that are used no more. ``add`` may be called by finalisers, at any moment."""

    def __init__(self, connection: WireConnection) -> None:
        self._connection = connection
        self._queue: queue.SimpleQueue[int] = queue.SimpleQueue()

    def add(self, number: int) -> None:
        """Have an object released soon."""
        self._queue.put(number)

    def flush(self) -> None:
        """Release what has been added."""
        numbers = []
        with suppress(queue.Empty):
            while True:
                numbers.append(self._queue.get_nowait())
        if numbers:
            request = wire.WireServiceDropRequest(objects=numbers)
            self._connection.call(self._connection.stub.Drop, request)


class RunsUnderWay:
    """The runs that the device has been asked for. Those that are cancelled here are cancelled there."""

    def __init__(self, connection: WireConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._controls: dict[int, Control] = {}

    def begin(self, control: Control) -> int:
        """Note a run, and return its number."""
        number = next(self._numbers)
        self._controls[number] = control
        return number

    def end(self, number: int) -> None:
        """Note that a run has ended."""
        del self._controls[number]

    def look(self) -> None:
        """Cancel on the device what has been cancelled here, again if it has not ended since."""
        for number, control in list(self._controls.items()):
            if control.cancelled:
                self.cancel(number)

    def cancel(self, number: int) -> None:
        """Cancel a run on the device."""
        self._connection.call(self._connection.stub.CancelRun, wire.CancelRunRequest(run=number))


class Upkeep:
    """A thread that looks after releases and cancellations, until it is closed."""

    def __init__(self, releases: Releases, runs: RunsUnderWay) -> None:
        self._releases = releases
        self._runs = runs
        self._over = threading.Event()
        self._thread = LastingThread(self._work, "wire-upkeep")
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            with suppress(HalError):  # the objects go with the session at the latest, and a cancellation is tried again
                self._releases.flush()
                self._runs.look()
