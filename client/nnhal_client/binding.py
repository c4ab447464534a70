"""A model bound to memory that client and devices share."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.arrays import Array
from nnhal.contexts import Closing
from nnhal.errors import NnhalError
from nnhal.remote import RemoteRunChannel
from nnhal.remote.calls import Calls
from nnhal.types import NO_DEADLINE
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.core.binding_memory import BindingMemory, DomainMemoryHandle
from nnhal_client.core.binding_runs import BindingRuns
from nnhal_client.core.native_model import NativeModel
from nnhal_client.reports import RunReport, output_dimensions


class NativeBinding:
    """What ``Binding`` and ``AsyncBinding`` have in common: the memory, and a binding in the framework."""

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        model: NativeModel,
        measure_timing: bool,
        dimensions: Mapping[str, Dimensions],
        memories: Mapping[str, DomainMemoryHandle],
        direct: bool,
        prepares: bool,
    ) -> None:
        """Raises as ``Model.bind``."""
        self._calls = calls
        self._stub = stub

        def bind(known: Mapping[str, Dimensions]) -> tuple[BindingMemory, wire.BindResponse]:
            memory = BindingMemory(model.inputs, model.outputs, known, memories)
            request = memory.bind_request(model.session_name, measure_timing, direct, prepares, calls.issue)
            return memory, calls.call(stub.Bind, request)

        self._memory, answer = bind(dimensions)
        if answer.insufficient_outputs:  # now their dimensions are known
            calls.release(stub.Unbind, wire.UnbindRequest(binding=answer.binding))
            self._memory, answer = bind({**dimensions, **output_dimensions(answer.insufficient_outputs)})
        self._handle = answer.binding
        channel = calls.take_channel(answer.channel_descriptor_id)
        settled = output_dimensions(answer.outputs)
        run_channels = [
            RemoteRunChannel(
                calls.take_channel(offered.channel_descriptor_id, offered.numbers_answers),
                offered.execution,
                offered.may_fall_back,
                offered.outputs,
                settled,
            )
            for offered in (answer.run_channel, answer.odd_run_channel)
            if offered.channel_descriptor_id
        ]
        self._memory.resize(settled)
        self._runs = BindingRuns(calls.place, channel, run_channels, measure_timing, self._memory)
        self.measures = measure_timing
        self.dimensions = self._memory.dimensions
        self.inputs = self._memory.inputs
        self.outputs = self._memory.outputs

    @property
    def socket_bytes(self) -> int:
        """Bytes that went over the binding's channels, both ways."""
        return sum(channel.bytes_sent + channel.bytes_received for channel in self._runs.channels)

    @property
    def lost_run_channel(self) -> bool:
        """Whether its runs were direct until the run channel closed. They go through the framework from then on."""
        return self._runs.lost_run_channel

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Copy arrays into the inputs. Raises ValueError if names, element types or dimensions differ."""
        self._memory.fill(inputs)

    def room(self, name: str) -> int:
        """The bytes of memory that an output has; 0 if it lies in memory of ``Framework.allocate``."""
        return self._memory.room(name)

    def _reset_state(self) -> None:
        self._calls.call(self._stub.ResetState, wire.ResetStateRequest(binding=self._handle))

    def _release(self) -> None:
        for channel in self._runs.channels:
            channel.close()
        self._calls.release(self._stub.Unbind, wire.UnbindRequest(binding=self._handle))


class Binding(NativeBinding, Closing):
    """A model bound to memory of this process: write ``inputs``, call ``run``, read ``outputs``. Use as a context.

    ``inputs`` and ``outputs`` are numpy views of the memory that the devices use, without those in memory of
    ``Framework.allocate``. The view of an output of unknown dimensions is valid after a run. ``dimensions`` are those
    that it was bound with. One run at a time. What the model carries from run to run, its ``states``, belongs to the
    binding, and never leaves the devices; if a device dies, it is lost, which the next run says.
    """

    def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """Run it once. ``deadline_ns`` is an instant of CLOCK_BOOTTIME.

        Raises OutputTooSmallError if an output does not fit its memory, HalError if a device refuses or misses the
        deadline, DeadObjectError if the framework is gone.
        """
        exchanges = self._runs.exchanges(deadline_ns)
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

    def reset_state(self) -> None:
        """Have the next run begin with the initial values of the model's state.

        Raises HalError: INVALID_ARGUMENT if the model has no state, GENERAL_FAILURE during a run.
        """
        self._reset_state()

    def close(self) -> None:
        """Release it in the framework and on the devices. The views stay valid. Harmless when repeated."""
        self._release()
