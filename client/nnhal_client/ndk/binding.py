"""The arguments of an execution, bound to the loaded model: one binding of the framework."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from weakref import ref

from nnhal.arrays import Bytes
from nnhal.codec import memory_to_wire
from nnhal.codec.memory import location_to_wire
from nnhal.codec.model import extension_names_to_wire
from nnhal.codec.request import hints_to_wire
from nnhal.errors import HalError
from nnhal.fence import Fence
from nnhal.remote.calls import Calls
from nnhal.tensors import TensorMemory
from nnhal.types import NO_DEADLINE, UNAVAILABLE_TIMING, DataLocation, ErrorStatus, Hints, Memory, Timing
from nnhal.types.layout import Dimensions
from nnhal.types.memory import NOWHERE
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.core.binding_runs import BindingRuns, OutputTooSmallError, run_channels_of
from nnhal_client.framework import Framework
from nnhal_client.model import Model as LoadedModel
from nnhal_client.ndk.arguments import ExecutionArgument
from nnhal_client.reports import dimensions_from_wire, insufficient_outputs


@dataclass(frozen=True, slots=True)
class ExecutionOutcome:
    """How a run ended."""

    status: ErrorStatus = ErrorStatus.NONE
    message: str = ""
    dimensions: Mapping[str, Dimensions] = field(default_factory=dict)
    """By output, those that a device has reported."""
    insufficient: frozenset[str] = frozenset()
    """The names of outputs that did not fit their memory."""
    timing: Timing = UNAVAILABLE_TIMING
    """From the beginning."""
    timing_fenced: Timing = UNAVAILABLE_TIMING
    """From the last awaited fence."""


@dataclass(frozen=True, slots=True)
class BindingSettings:
    """What an execution sets besides its arguments."""

    measures: bool
    loop_timeout_ns: int | None
    hints: Hints


@dataclass(frozen=True, slots=True)
class Arguments:
    """The inputs and outputs of an execution, all of them given."""

    inputs: Sequence[ExecutionArgument]
    outputs: Sequence[ExecutionArgument]

    @property
    def uses_roles(self) -> bool:
        """Whether memory was made for certain roles: the framework knows which values it holds, and no device does."""
        return any(each.memory is not None and each.memory.host is None for each in (*self.inputs, *self.outputs))

    def key(self, settings: BindingSettings) -> Hashable:
        """What a binding depends on: it serves all executions of one key, one after the other."""
        return settings, *(argument.kind for argument in (*self.inputs, *self.outputs)), len(self.inputs)


class ExecutionBinding:
    """A binding in which buffers have a place in shared memory, and memory is used in place. One run at a time.

    It outlives the execution that it was made for: the next one of the same ``key`` has it.
    """

    def __init__(
        self, framework: Framework, model: LoadedModel, arguments: Arguments, settings: BindingSettings
    ) -> None:
        """Raises HalError if a device refuses, TransportError if the framework is gone, OSError if memory runs out."""
        self._calls: Calls = framework.calls
        self._stub: framework_pb2_grpc.FrameworkServiceStub = framework.stub
        self.key = arguments.key(settings)
        self._memories = [ref(a.memory) for a in (*arguments.inputs, *arguments.outputs) if a.memory is not None]
        inputs, outputs = _named("input", arguments.inputs), _named("output", arguments.outputs)
        self._memory = TensorMemory(
            {name: a.length for name, a in inputs.items() if a.buffer is not None},
            {name: a.length for name, a in outputs.items() if a.buffer is not None},
            partial(model.memory.create, name="nnhal-ndk"),
            model.memory.alignment,
        )
        pools = list(self._memory.pools)
        request = wire.BindRequest(
            model=model.name,
            inputs=[self._bound(name, argument, pools) for name, argument in inputs.items()],
            outputs=[self._bound(name, argument, pools) for name, argument in outputs.items()],
            measure_timing=settings.measures,
            loop_timeout_duration_ns=settings.loop_timeout_ns,
            hints=hints_to_wire(settings.hints.values),
            hint_extensions=extension_names_to_wire(settings.hints.extension_names),
            wants_run_channel=not settings.measures and not arguments.uses_roles,
        )
        request.pools.extend(memory_to_wire(memory, self._calls.issue) for memory in pools)
        answer = self._calls.call(self._stub.Bind, request)
        self._handle = answer.binding
        channel = self._calls.take_channel(answer.channel_descriptor_id)
        declared = {f"output{number}": argument.dimensions for number, argument in enumerate(arguments.outputs)}
        run_channels = run_channels_of(answer, self._calls.take_channel, declared)
        self._runs = BindingRuns(self._calls.place, channel, run_channels, settings.measures, _Buffers())

    @property
    def is_usable(self) -> bool:
        """Return whether the application still has the memory that it is for, and the session lasts."""
        memories = [found() for found in self._memories]
        return all(memory is not None and not memory.is_closed for memory in memories) and not self._calls.hung_up

    def run(self, arguments: Arguments, deadline_ns: int = NO_DEADLINE) -> ExecutionOutcome:
        """Run it once, directly or over the binding's channel. Raises DeadObjectError if the framework is gone."""
        self._fill(arguments.inputs)
        try:
            report = self._runs.run(deadline_ns)
        except OutputTooSmallError as error:
            return ExecutionOutcome(error.status, error.message, error.dimensions, error.outputs)
        except HalError as error:
            return ExecutionOutcome(error.status, error.message)
        self._take_out(arguments.outputs)
        timing = UNAVAILABLE_TIMING
        if len(report.steps) == 1:
            timing = Timing(report.steps[0].time_on_device_ns, report.steps[0].time_in_driver_ns)
        return ExecutionOutcome(dimensions=report.dimensions, timing=timing, timing_fenced=timing)

    def launch(
        self, arguments: Arguments, wait_for: Sequence[Fence], deadline_ns: int, duration_ns: int
    ) -> LaunchedExecution:
        """Launch a run that begins when the fences have signalled. Raises HalError, TransportError."""
        self._fill(arguments.inputs)
        request = wire.LaunchRunRequest(
            binding=self._handle,
            wait_for_descriptor_ids=[self._calls.issue(fence.descriptor) for fence in wait_for],
            deadline_ns=deadline_ns,
            duration_ns=duration_ns,
        )
        answer = self._calls.call(self._stub.LaunchRun, request)
        fence = Fence(self._calls.take(answer.fence_descriptor_id))
        return LaunchedExecution(self, arguments.outputs, answer.launched, fence)

    def cancel(self, launched: int) -> None:
        """Have a launched run end as soon as possible. Raises HalError, TransportError."""
        self._calls.call(self._stub.CancelLaunchedRun, wire.CancelLaunchedRunRequest(launched=launched))

    def outcome_of(self, launched: int, outputs: Sequence[ExecutionArgument]) -> ExecutionOutcome:
        """How a launched run ended. Raises HalError, TransportError."""
        answer = self._calls.call(self._stub.GetLaunchedRun, wire.GetLaunchedRunRequest(launched=launched))
        self._calls.release(self._stub.ReleaseLaunchedRun, wire.ReleaseLaunchedRunRequest(launched=launched))
        if not answer.status:
            self._take_out(outputs)
        return ExecutionOutcome(
            ErrorStatus(answer.status),
            answer.message,
            dimensions_from_wire(answer.report),
            insufficient_outputs(answer.report),
            Timing(answer.timing_launched.time_on_device_ns, answer.timing_launched.time_in_driver_ns),
            Timing(answer.timing_fenced.time_on_device_ns, answer.timing_fenced.time_in_driver_ns),
        )

    def close(self) -> None:
        for channel in self._runs.channels:
            channel.close()
        self._calls.release(self._stub.Unbind, wire.UnbindRequest(binding=self._handle))

    def _fill(self, inputs: Sequence[ExecutionArgument]) -> None:
        """Copy the application's buffers into the shared memory."""
        for number, argument in enumerate(inputs):
            if argument.buffer is not None:
                self._place(f"input{number}", argument)[:] = argument.buffer[: argument.length]

    def _take_out(self, outputs: Sequence[ExecutionArgument]) -> None:
        """Copy the outputs into the application's buffers."""
        for number, argument in enumerate(outputs):
            if argument.buffer is not None:
                argument.buffer[: argument.length] = self._place(f"output{number}", argument)

    def _place(self, name: str, argument: ExecutionArgument) -> Bytes:
        return self._memory.pool_of(name).view(self._memory.locations[name].offset, argument.length)

    def _bound(self, name: str, argument: ExecutionArgument, pools: list[Memory]) -> wire.TensorBinding:
        if argument.is_omitted:
            return wire.TensorBinding(name=name, omitted=True)
        location, handle = NOWHERE, 0
        if argument.memory is None:
            location = self._memory.locations[name]
        elif argument.memory.host is None:
            handle = argument.memory.handle
        else:
            location = self._in_memory(argument, argument.memory.host, pools)
        return wire.TensorBinding(
            name=name, location=location_to_wire(location), dimensions=argument.dimensions, memory=handle
        )

    def _in_memory(self, argument: ExecutionArgument, memory: Memory, pools: list[Memory]) -> DataLocation:
        if memory not in pools[len(self._memory.pools) :]:
            pools.append(memory)
        size = min(argument.size or argument.length, argument.length)
        return DataLocation(pools.index(memory), argument.offset, size, argument.length - size)


class _Buffers:
    """The outputs of an execution, which are copied as they are."""

    has_unknown_dimensions = False

    def resize(self, dimensions: Mapping[str, Dimensions]) -> None:
        """Show nothing."""

    def shortage(self, dimensions: Mapping[str, Dimensions]) -> str:
        """Say nothing: applications ask for the dimensions of an output."""
        return ""


@dataclass(frozen=True, slots=True)
class LaunchedExecution:
    """A launched run of a binding. Its fence signals when it has ended."""

    binding: ExecutionBinding
    outputs: Sequence[ExecutionArgument]
    handle: int
    fence: Fence

    def cancel(self) -> None:
        """Have it end as soon as possible: its fence is in error then. Raises HalError, TransportError."""
        self.binding.cancel(self.handle)

    def outcome(self) -> ExecutionOutcome:
        """How it ended. To be called once, after its end. Raises HalError, TransportError."""
        return self.binding.outcome_of(self.handle, self.outputs)


def _named(what: str, arguments: Sequence[ExecutionArgument]) -> dict[str, ExecutionArgument]:
    return {f"{what}{number}": argument for number, argument in enumerate(arguments)}
