"""The runs of one session of the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nnhal.arrays import Bytes
from nnhal.codec import nanoseconds
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.host.wire.execution import FarExecution
from nnhal_devices.host.wire.objects import FarObjects
from nnhal_devices.wire.chunks import Scatter


class FarRuns:
    """Runs executions, and cancels them by the client's numbers. Safe to use from several threads."""

    def __init__(self, objects: FarObjects, cancel: Callable[[int], None]) -> None:
        """``cancel`` cancels an execution of the device by its handle."""
        self._objects = objects
        self._cancel = cancel
        self._running: dict[int, FarExecution] = {}

    def run(
        self, start: wire.RunStart, chunks: Iterator[bytes], received_ns: int
    ) -> tuple[wire.RunOutcome, list[Bytes]]:
        """Take the inputs and run. Return the outcome, and the outputs to send, which are valid until the next run.

        Raises NnhalError.
        """
        with self._held(start) as execution:
            scatter = Scatter(execution.inputs, "inputs")
            for chunk in chunks:
                scatter.feed(chunk)
            scatter.require_full()
            return execution.run(nanoseconds(start, "remaining_ns"), received_ns)

    def cancel(self, run: int) -> None:
        """Cancel a run. One that has ended is left alone. Raises HalError."""
        execution = self._running.get(run)
        if execution is not None:
            self._cancel(execution.handle)

    @contextmanager
    def _held(self, start: wire.RunStart) -> Iterator[FarExecution]:
        execution = self._objects.get(start.execution, FarExecution, "execution")
        execution.hold()
        self._running[start.run] = execution
        try:
            yield execution
        finally:
            self._running.pop(start.run, None)
            execution.let_go()
