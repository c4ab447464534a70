"""One execution on the device, as it is run from this host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.errors import general_failure
from nnhal.types import NO_DEADLINE, Copy
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.driver import Control, Outcome
from nnhal_devices.remote.binding import BoundPlaces
from nnhal_devices.remote.clock_offset import ClockOffset
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.remote.kept_memory import KeptMemory
from nnhal_devices.remote.releases import Releases, RunsUnderWay
from nnhal_devices.wire import CHUNK_BYTES, Scatter, chunks_of, joined


@dataclass(frozen=True, slots=True)
class WireParts:
    """Parts that all workloads of the driver share."""

    connection: WireConnection
    releases: Releases
    runs: RunsUnderWay
    kept: KeptMemory
    offset: ClockOffset


class RemoteRun:
    """Runs an execution on the device, once at a time."""

    def __init__(self, execution: int, inputs: BoundPlaces, outputs: BoundPlaces, parts: WireParts) -> None:
        self._execution = execution
        self._inputs = inputs.sent
        self._outputs = outputs.sent
        self._input_bytes = inputs.sent_bytes
        self._is_small = max(inputs.sent_bytes, outputs.sent_bytes) <= CHUNK_BYTES
        self._parts = parts

    def __call__(self, control: Control) -> Outcome:
        """Run it. Raises HalError."""
        began = now_ns()
        runs = self._parts.runs
        number = runs.begin(control)
        try:
            remaining = -1 if control.deadline_ns == NO_DEADLINE else max(control.deadline_ns - began, 0)
            start = wire.RunStart(execution=self._execution, run=number, remaining_ns=remaining)
            outcome = self._at_once(start) if self._is_small else self._in_chunks(start)
        except (grpc.RpcError, ValueError) as error:
            self._parts.connection.fail(error)
        finally:
            runs.end(number)
        return self._outcome(outcome, began, now_ns())

    def _at_once(self, start: wire.RunStart) -> wire.RunOutcome:
        connection = self._parts.connection
        request = wire.WireServiceRunRequest(start=start, inputs=joined(self._inputs))
        answer = connection.stub.Run(request, metadata=connection.metadata)
        if answer.outcome.output_sufficient_size:
            scatter = self._scatter(answer.outcome)
            scatter.feed(answer.outputs)
            scatter.require_full()
        return answer.outcome

    def _in_chunks(self, start: wire.RunStart) -> wire.RunOutcome:
        connection = self._parts.connection
        answers: Any = connection.stub.RunInChunks(_parts(start, self._inputs), metadata=connection.metadata)
        first: wire.RunInChunksResponse | None = next(answers, None)
        if first is None:
            general_failure(f"{connection.place} ended a run without an outcome")
        outcome = first.outcome
        scatter = self._scatter(outcome)
        for part in answers:
            scatter.feed(part.chunk)
        if outcome.output_sufficient_size:
            scatter.require_full()
        return outcome

    def _scatter(self, outcome: wire.RunOutcome) -> Scatter:
        """Return what takes the outputs, as far as they were written."""
        what = f"outputs from {self._parts.connection.place}"
        sizes = outcome.output_bytes
        if not sizes:
            return Scatter(self._outputs, what, general_failure)
        if len(sizes) != len(self._outputs):
            general_failure(f"{len(sizes)} {what}, expected {len(self._outputs)}")
        places = [
            # What was bound without memory has no place here; its dimensions say that it does not fit.
            place[:size] if size <= len(place) else np.empty(size, np.uint8)
            for place, size in zip(self._outputs, sizes, strict=True)
        ]
        return Scatter(places, what, general_failure)

    def _outcome(self, outcome: wire.RunOutcome, began: int, ended: int) -> Outcome:
        offset = self._parts.offset
        offset.add(began, outcome.received_ns, outcome.ended_ns, ended)
        copies = []
        if self._input_bytes:
            copies.append(Copy(False, self._input_bytes, began, offset.here(outcome.began_ns, began, ended), True))
        received = self._received_bytes(outcome)
        if received:
            copies.append(Copy(True, received, offset.here(outcome.ended_ns, began, ended), ended, True))
        return Outcome(
            tuple(tuple(shape.dimensions) for shape in outcome.output_shapes),
            None if outcome.time_on_device_ns < 0 else outcome.time_on_device_ns,
            copies=tuple(copies),
        )

    def _received_bytes(self, outcome: wire.RunOutcome) -> int:
        if not outcome.output_sufficient_size:
            return 0
        return sum(outcome.output_bytes) if outcome.output_shapes else sum(map(len, self._outputs))


def _parts(start: wire.RunStart, inputs: list[Bytes]) -> Iterator[wire.RunInChunksRequest]:
    yield wire.RunInChunksRequest(start=start)
    for chunk in chunks_of(inputs):
        yield wire.RunInChunksRequest(chunk=chunk)
