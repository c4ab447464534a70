"""The arguments of an execution, bound to the loaded model: one binding of the framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.codec import memory_to_wire
from nnhal.codec.memory import location_to_wire
from nnhal.codec.model import extension_names_to_wire
from nnhal.codec.request import hints_to_wire
from nnhal.errors import DeadObjectError, TransportError
from nnhal.fence import Fence
from nnhal.link import ChannelClosedError, ProtocolError
from nnhal.memory import MappedPool, create_ashmem, open_pool
from nnhal.remote.calls import Calls
from nnhal.tensors import lay_out
from nnhal.types import NO_DEADLINE, UNAVAILABLE_TIMING, DataLocation, ErrorStatus, Hints, Memory, Timing
from nnhal.types.memory import NOWHERE
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.framework import Framework
from nnhal_client.model import Model as LoadedModel
from nnhal_client.ndk.arguments import ExecutionArgument
from nnhal_client.reports import RunReport, report_from_wire


@dataclass(frozen=True, slots=True)
class ExecutionOutcome:
    """How a run ended."""

    status: ErrorStatus
    message: str
    report: RunReport
    insufficient: frozenset[str]
    """The names of outputs that did not fit their memory."""
    timing: Timing = UNAVAILABLE_TIMING
    """From the beginning."""
    timing_fenced: Timing = UNAVAILABLE_TIMING
    """From the last awaited fence."""


class ExecutionBinding:
    """A binding in which buffers have a place in one shared memory, and memory is used in place. One run at a time."""

    def __init__(
        self,
        framework: Framework,
        model: LoadedModel,
        inputs: Sequence[ExecutionArgument],
        outputs: Sequence[ExecutionArgument],
        measure_timing: bool,
        loop_timeout_ns: int | None,
        hints: Hints,
    ) -> None:
        """Raises HalError if a device refuses, TransportError if the framework is gone, OSError if memory runs out."""
        self._calls: Calls = framework.calls
        self._stub: framework_pb2_grpc.FrameworkServiceStub = framework.stub
        self._inputs = {f"input{number}": argument for number, argument in enumerate(inputs)}
        self._outputs = {f"output{number}": argument for number, argument in enumerate(outputs)}
        arguments = {**self._inputs, **self._outputs}
        sizes = {name: a.length for name, a in arguments.items() if a.buffer is not None}
        self._locations, size = lay_out(sizes)
        self._pools: list[Memory] = []
        self._pool: MappedPool | None = None
        if sizes:
            self._pools.append(create_ashmem(max(1, size), "nnhal-ndk"))
            pool = open_pool(self._pools[0], writable=True)
            if not isinstance(pool, MappedPool):
                raise TypeError("ashmem is mapped")
            self._pool = pool
        request = wire.BindRequest(
            model=model.name,
            inputs=[self._bound(name, argument) for name, argument in self._inputs.items()],
            outputs=[self._bound(name, argument) for name, argument in self._outputs.items()],
            measure_timing=measure_timing,
            loop_timeout_duration_ns=loop_timeout_ns,
            hints=hints_to_wire(hints.values),
            hint_extensions=extension_names_to_wire(hints.extension_names),
        )
        request.pools.extend(memory_to_wire(memory, self._calls.issue) for memory in self._pools)
        answer = self._calls.call(self._stub.Bind, request)
        self._handle = answer.binding
        self._channel = self._calls.take_channel(answer.channel_descriptor_id)

    def run(self, deadline_ns: int = NO_DEADLINE) -> ExecutionOutcome:
        """Run it once, over the binding's channel. Raises DeadObjectError if the framework is gone."""
        self._fill()
        try:
            self._channel.send(wire.RunCall(deadline_ns=deadline_ns).SerializeToString())
            answer = wire.RunAnswer.FromString(self._channel.receive())
        except ChannelClosedError as error:
            raise DeadObjectError(f"the framework at {self._calls.place}: {error}") from error
        except ProtocolError as error:
            raise TransportError(f"the framework at {self._calls.place}: {error}") from error
        report = report_from_wire(answer.report)
        timing = UNAVAILABLE_TIMING
        if len(report.steps) == 1:
            timing = Timing(report.steps[0].time_on_device_ns, report.steps[0].time_in_driver_ns)
        return self._ended(
            ExecutionOutcome(
                ErrorStatus(answer.status), answer.message, report, _insufficient(answer.report), timing, timing
            )
        )

    def launch(self, wait_for: Sequence[Fence], deadline_ns: int, duration_ns: int) -> LaunchedExecution:
        """Launch a run that begins when the fences have signalled. Raises HalError, TransportError."""
        self._fill()
        request = wire.LaunchRunRequest(
            binding=self._handle,
            wait_for_descriptor_ids=[self._calls.issue(fence.descriptor) for fence in wait_for],
            deadline_ns=deadline_ns,
            duration_ns=duration_ns,
        )
        answer = self._calls.call(self._stub.LaunchRun, request)
        return LaunchedExecution(self, answer.launched, Fence(self._calls.take(answer.fence_descriptor_id)))

    def cancel(self, launched: int) -> None:
        """Have a launched run end as soon as possible. Raises HalError, TransportError."""
        self._calls.call(self._stub.CancelLaunchedRun, wire.CancelLaunchedRunRequest(launched=launched))

    def outcome_of(self, launched: int) -> ExecutionOutcome:
        """How a launched run ended. Raises HalError, TransportError."""
        answer = self._calls.call(self._stub.GetLaunchedRun, wire.GetLaunchedRunRequest(launched=launched))
        self._calls.release(self._stub.ReleaseLaunchedRun, wire.ReleaseLaunchedRunRequest(launched=launched))
        return self._ended(
            ExecutionOutcome(
                ErrorStatus(answer.status),
                answer.message,
                report_from_wire(answer.report),
                _insufficient(answer.report),
                Timing(answer.timing_launched.time_on_device_ns, answer.timing_launched.time_in_driver_ns),
                Timing(answer.timing_fenced.time_on_device_ns, answer.timing_fenced.time_in_driver_ns),
            )
        )

    def close(self) -> None:
        """Release it in the framework and on the devices."""
        self._channel.close()
        self._calls.release(self._stub.Unbind, wire.UnbindRequest(binding=self._handle))

    def _fill(self) -> None:
        """Copy the application's buffers into the shared memory."""
        for name, argument in self._inputs.items():
            if argument.buffer is not None and self._pool is not None:
                length = argument.length
                self._pool.view(self._locations[name].offset, length)[:] = argument.buffer[:length]

    def _ended(self, outcome: ExecutionOutcome) -> ExecutionOutcome:
        """Copy the outputs into the application's buffers if the run succeeded."""
        for name, argument in self._outputs.items():
            if outcome.status == ErrorStatus.NONE and argument.buffer is not None and self._pool is not None:
                length = argument.length
                argument.buffer[:length] = self._pool.view(self._locations[name].offset, length)
        return outcome

    def _bound(self, name: str, argument: ExecutionArgument) -> wire.TensorBinding:
        if argument.is_omitted:
            return wire.TensorBinding(name=name, omitted=True)
        location, handle = NOWHERE, 0
        if argument.memory is None:
            location = self._locations[name]
        elif argument.memory.host is None:
            handle = argument.memory.handle
        else:
            location = self._in_memory(argument, argument.memory.host)
        return wire.TensorBinding(
            name=name, location=location_to_wire(location), dimensions=argument.dimensions, memory=handle
        )

    def _in_memory(self, argument: ExecutionArgument, memory: Memory) -> DataLocation:
        if memory not in self._pools[1 if self._pool else 0 :]:
            self._pools.append(memory)
        size = min(argument.size or argument.length, argument.length)
        return DataLocation(self._pools.index(memory), argument.offset, size, argument.length - size)


@dataclass(frozen=True, slots=True)
class LaunchedExecution:
    """A launched run of a binding. Its fence signals when it has ended."""

    binding: ExecutionBinding
    handle: int
    fence: Fence

    def cancel(self) -> None:
        """Have it end as soon as possible: its fence is in error then. Raises HalError, TransportError."""
        self.binding.cancel(self.handle)

    def outcome(self) -> ExecutionOutcome:
        """How it ended. To be called once, after its end. Raises HalError, TransportError."""
        return self.binding.outcome_of(self.handle)


def _insufficient(report: wire.RunReport) -> frozenset[str]:
    return frozenset(output.name for output in report.outputs if not output.sufficient)
