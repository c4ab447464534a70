"""A model tied to memory that client and devices share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from nnhal.arrays import Array
from nnhal.codec import memory_to_wire
from nnhal.codec.memory import location_to_wire
from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.link import Channel, ChannelClosedError, ProtocolError
from nnhal.memory import MappedPool, create_ashmem, open_pool
from nnhal.remote.calls import Calls
from nnhal.tensors import GUESS, Tensor, lay_out
from nnhal.types import NO_DEADLINE, ErrorStatus, Memory
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.direct import DirectBurst, Exchanges
from nnhal_client.memory import DomainMemory
from nnhal_client.reports import RunReport, dimensions_from_wire, report_from_wire
from nnhal_client.tensors import fill, input_dimensions


class OutputTooSmallError(HalError):
    """An output did not fit its memory. ``dimensions`` has what is known of outputs by now, by name."""

    def __init__(self, message: str, dimensions: Mapping[str, Dimensions]) -> None:
        super().__init__(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, message)
        self.dimensions = dimensions


class BoundModel(Protocol):
    """What a binding needs of its model."""

    @property
    def session_name(self) -> str:
        """Its name in the session."""

    @property
    def inputs(self) -> Sequence[Tensor]:
        """What it takes."""

    @property
    def outputs(self) -> Sequence[Tensor]:
        """What it gives."""


class Binding:
    """A model tied to memory of this process: write ``inputs``, call ``run``, read ``outputs``.

    ``inputs`` and ``outputs`` are numpy views of the memory that the devices use, but for those in memory of
    ``Framework.allocate``; those of outputs whose dimensions the model leaves open are right after a run.
    ``dimensions`` has what they were bound with. One run at a time.
    """

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        model: BoundModel,
        measure_timing: bool,
        dimensions: Mapping[str, Dimensions],
        memories: Mapping[str, DomainMemory],
        direct: bool,
    ) -> None:
        self._calls = calls
        self._stub = stub
        self.measures = measure_timing
        names = {tensor.name for tensor in (*model.inputs, *model.outputs)}
        if not memories.keys() <= names:
            raise ValueError(f"got memory for {sorted(memories)}, expected some of {sorted(names)}")
        self._memories = dict(memories)
        inputs = [tensor for tensor in model.inputs if tensor.name not in memories]
        outputs = [tensor for tensor in model.outputs if tensor.name not in memories]
        self._open = [tensor for tensor in outputs if tensor.is_open]
        self.dimensions = {
            **{tensor.name: dimensions.get(tensor.name, tensor.dimensions) for tensor in model.inputs},
            **{tensor.name: input_dimensions(tensor, dimensions) for tensor in inputs},
            **{tensor.name: dimensions.get(tensor.name, tensor.dimensions) for tensor in model.outputs},
        }
        sizes = {
            **{t.name: max(1, t.bytes_of(self.dimensions[t.name])) for t in inputs},
            **{t.name: t.byte_size or max(GUESS, t.bytes_of(self.dimensions[t.name])) for t in outputs},
        }
        self._locations, size = lay_out(sizes)
        self._memory: Memory = create_ashmem(max(1, size), "nnhal-client")
        pool = open_pool(self._memory, writable=True)
        if not isinstance(pool, MappedPool):
            raise TypeError("ashmem is mapped")
        self._pool = pool
        self.inputs = {t.name: self._view(t, self.dimensions[t.name]) for t in inputs}
        self.outputs = {t.name: self._view(t, (0,) if t.is_open else t.dimensions) for t in outputs}
        request = wire.BindRequest(
            model=model.session_name,
            inputs=[self._bound(t, self.dimensions[t.name] if t.is_open else ()) for t in model.inputs],
            outputs=[self._bound(tensor, ()) for tensor in model.outputs],
            pools=[memory_to_wire(self._memory, calls.issue)],
            measure_timing=measure_timing,
            direct=direct and not measure_timing,
        )
        answer = calls.call(stub.Bind, request)
        self._handle = answer.binding
        self._channel: Channel = calls.take_channel(answer.channel_descriptor_id)
        self._direct = DirectBurst(calls, answer.direct) if answer.HasField("direct") else None
        self._call = wire.RunCall(deadline_ns=NO_DEADLINE).SerializeToString()

    @property
    def socket_bytes(self) -> int:
        """Bytes that went over the binding's channels, both ways."""
        channels = [self._channel, *([] if self._direct is None else [self._direct.channel])]
        return sum(channel.bytes_sent + channel.bytes_received for channel in channels)

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Copy arrays into the inputs. Raises ValueError where names, element types or dimensions differ."""
        fill(self.inputs, inputs)

    def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """Run it once. ``deadline_ns`` is an instant of CLOCK_BOOTTIME.

        Raises HalError where a device refuses or misses the deadline, DeadObjectError where the framework is gone.
        """
        exchanges = self.exchanges(deadline_ns)
        try:
            channel, message = next(exchanges)
            while True:
                try:
                    channel.send(message)
                    answer = channel.receive()
                except NnhalError as error:
                    channel, message = exchanges.throw(error)
                else:
                    channel, message = exchanges.send(answer)
        except StopIteration as end:
            report: RunReport = end.value
            return report

    def exchanges(self, deadline_ns: int = NO_DEADLINE) -> Exchanges:
        """A run, for who waits for answers in a way of his own. Raises as ``run``."""
        direct = self._direct
        if direct is not None and deadline_ns == NO_DEADLINE:
            try:
                return (yield from direct.exchanges())
            except (ChannelClosedError, ProtocolError, TransportError):  # the framework knows why
                self._direct = None
                direct.close()
            except HalError:
                if not direct.may_fall_back:
                    raise
        return (yield from self._exchanges(deadline_ns))

    def _exchanges(self, deadline_ns: int) -> Exchanges:
        call = self._call
        if deadline_ns != NO_DEADLINE:
            call = wire.RunCall(deadline_ns=deadline_ns).SerializeToString()
        called_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if self.measures else -1
        try:
            answer = wire.RunAnswer.FromString((yield self._channel, call))
        except ChannelClosedError as error:
            raise DeadObjectError(f"the framework at {self._calls.endpoint.directory}: {error}") from error
        if ErrorStatus(answer.status) == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE:
            raise OutputTooSmallError(answer.message, dimensions_from_wire(answer.report))
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        answered_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if self.measures else -1
        report = report_from_wire(answer.report, called_ns, answered_ns)
        for tensor in self._open:
            found = report.dimensions.get(tensor.name)
            if found is not None:
                self.outputs[tensor.name] = self._view(tensor, found)
        return report

    def close(self) -> None:
        """Release it in the framework and on the devices. The views stay valid."""
        if self._direct is not None:
            self._direct.close()
        self._channel.close()
        self._calls.release(self._stub.Unbind, wire.UnbindRequest(binding=self._handle))

    def _view(self, tensor: Tensor, dimensions: Dimensions) -> Array:
        return tensor.view(self._pool, self._locations[tensor.name].offset, dimensions)

    def _bound(self, tensor: Tensor, dimensions: Dimensions) -> wire.TensorBinding:
        memory = self._memories.get(tensor.name)
        if memory is not None:
            return wire.TensorBinding(name=tensor.name, memory=memory.handle, dimensions=dimensions)
        location = location_to_wire(self._locations[tensor.name])
        return wire.TensorBinding(name=tensor.name, location=location, dimensions=dimensions)
