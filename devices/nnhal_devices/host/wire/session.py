"""One session of the wire: an ordinary client of the device's own endpoint, in the name of a client on another host."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nnhal.arrays import Bytes
from nnhal.codec import deadline_after, nanoseconds
from nnhal.errors import invalid_argument
from nnhal.remote.calls import Calls
from nnhal.remote.preparation import prepared_handle
from nnhal.remote.prepared_model import RemotePreparedModel
from nnhal.shares import NOBODY, Tenant
from nnhal.types import CACHE_TOKEN_BYTES
from nnhal.v1 import backend_pb2, backend_pb2_grpc, device_pb2, device_pb2_grpc
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.host.wire.constants import ConstantPacks, KeptConstants, Uploads
from nnhal_devices.host.wire.execution import FarExecution, memory_of
from nnhal_devices.host.wire.limits import SessionBudget, WireLimits
from nnhal_devices.host.wire.objects import FarMemory, FarObjects, FarPreparedModel
from nnhal_devices.host.wire.own_device import OwnDevice
from nnhal_devices.wire import Scatter, chunks_of


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


class FarSession:
    """The session of one client on another host. Its methods raise NnhalError. Safe to use from several threads."""

    def __init__(
        self, own: OwnDevice, name: str, client: str, kept: KeptConstants, limits: WireLimits, caller: Tenant = NOBODY
    ) -> None:
        """``name`` is shown to operators; ``client`` says whose constants it may use, and ``caller`` who counts for
        what is made. Raises NnhalError.
        """
        self.caller = caller
        self.token = secrets.token_urlsafe(32)
        self.ended = threading.Event()
        self.name = name
        self._own = own
        self._calls = Calls(own.endpoint, name)
        self._device = device_pb2_grpc.DeviceServiceStub(self._calls.rpc)
        self._backend = backend_pb2_grpc.BackendServiceStub(self._calls.rpc)
        self._budget = SessionBudget(limits)
        self.uploads = Uploads(client, kept, limits, self._budget)
        self._packs = ConstantPacks(self._calls, client, kept, self.uploads, self._budget)
        self._objects = FarObjects(self._budget)
        self.runs = FarRuns(self._objects, own.cancel)

    @property
    def gone(self) -> bool:
        """Return whether the device has ended the session, such as for an operator."""
        return self._calls.hung_up

    def introduction(self) -> wire.OpenSessionResponse:
        """Return the first message to the client."""
        answer = wire.OpenSessionResponse(session_token=self.token)
        self._own.introduce(answer)
        answer.description.CopyFrom(self._calls.call(self._backend.Describe, backend_pb2.DescribeRequest()))
        return answer

    def assess(self, packed: wire.PackedModel) -> backend_pb2.AssessModelResponse:
        """Have a model assessed. Raises MissingConstantsError too."""
        request = backend_pb2.AssessModelRequest(model=self._packs.model(packed))
        return self._calls.call(self._backend.AssessModel, request)

    def optimize(self, packed: wire.PackedModel) -> backend_pb2.OptimizeSubgraphResponse:
        """Have a model optimised. Raises MissingConstantsError too."""
        request = backend_pb2.OptimizeSubgraphRequest(model=self._packs.model(packed))
        return self._calls.call(self._backend.OptimizeSubgraph, request)

    def prepare(self, request: wire.PrepareRequest, received_ns: int) -> wire.PrepareResponse:
        """Prepare a model, within a time from ``received_ns`` on. Raises MissingConstantsError too."""
        remaining_ns = nanoseconds(request, "remaining_ns")
        config = device_pb2.PrepareModelConfig(
            preference=request.preference,
            priority=request.priority,
            deadline_ns=deadline_after(received_ns, remaining_ns),
            cache_token=bytes(CACHE_TOKEN_BYTES),
        )
        message = device_pb2.PrepareModelWithConfigRequest(model=self._packs.model(request.model), config=config)
        pool_bytes = request.model.pool_bytes
        with self._budget.taken_for(pool_bytes, "a prepared model") as owner:
            events = self._calls.stream(self._device.PrepareModelWithConfig, message)
            handle = prepared_handle(events, self._calls.place)
        number = self._objects.add(FarPreparedModel(RemotePreparedModel(self._calls, handle), pool_bytes), owner)
        return wire.PrepareResponse(prepared_model=number, has_figures=self._own.shows(handle))

    def bind(self, request: wire.BindExecutionRequest) -> int:
        """Bind an execution and return its number."""
        prepared = self._objects.get(request.prepared_model, FarPreparedModel, "prepared model")
        with self._budget.taken_for(memory_of(request), "an execution") as owner:
            execution = FarExecution(request, prepared, self._objects)
        return self._objects.add(execution, owner)

    def allocate(self, size: int) -> int:
        """Allocate a buffer and return its number."""
        if size <= 0:
            invalid_argument(f"a buffer of {size} bytes, expected more than 0")
        with self._budget.taken_for(size, "a buffer") as owner:
            memory = FarMemory(size, "nnhal-wire-buffer")
        return self._objects.add(memory, owner)

    def fetch(self, number: int, length: int) -> Iterator[bytes]:
        """Return the first bytes of a buffer, in chunks."""
        memory = self._objects.get(number, FarMemory, "buffer")
        if not 0 <= length <= memory.held_bytes:
            invalid_argument(f"{length} bytes of buffer {number}, expected 0 to {memory.held_bytes}")
        return chunks_of([memory.view[:length]])

    def store(self, number: int, chunks: Iterator[bytes]) -> None:
        """Write a buffer from its beginning on."""
        memory = self._objects.get(number, FarMemory, "buffer")
        scatter = Scatter([memory.view], f"buffer {number}")
        for chunk in chunks:
            scatter.feed(chunk)

    def drop(self, numbers: Iterator[int]) -> None:
        """Release objects."""
        for number in numbers:
            self._objects.drop(number)

    def notify(self, request: wire.NotifyRequest) -> None:
        """Tell the device of a network."""
        message = backend_pb2.NotifyNetworkRequest(network=request.network, event=request.event)
        self._calls.call(self._backend.NotifyNetwork, message)

    def workload_figures(self, number: int) -> wire.GetWorkloadFiguresResponse:
        """Return what the driver shows of a prepared model."""
        prepared = self._objects.get(number, FarPreparedModel, "prepared model")
        return wire.GetWorkloadFiguresResponse(figures=self._own.workload_figures(prepared.remote.handle))

    def device_figures(self) -> wire.GetDeviceFiguresResponse:
        """Return the driver's figures of this moment."""
        return self._own.figures()

    def close(self) -> None:
        """End the session, and release on the device what it owns."""
        self.ended.set()
        self._calls.close()
        self.uploads.close()
        self._packs.close()
