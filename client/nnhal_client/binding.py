"""A model bound to memory that client and devices share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nnhal.arrays import Array
from nnhal.contexts import Closing
from nnhal.extensions.values import Value
from nnhal.fence import Fence
from nnhal.remote.calls import Calls
from nnhal.tensors import GUESS
from nnhal.types import NO_DEADLINE
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.core.binding_memory import BindingMemory, DomainMemoryHandle, is_within
from nnhal_client.core.binding_runs import BindingRuns, run_channels_of
from nnhal_client.core.native_model import NativeModel
from nnhal_client.launched import LaunchedRun
from nnhal_client.reports import RunReport, output_dimensions
from nnhal_client.tensors import ReservedDimensions, first_of, most_of, opened, room_for


@dataclass(frozen=True, slots=True)
class BindingOptions:
    """The arguments of ``Model.bind``."""

    measure_timing: bool
    dimensions: Mapping[str, ReservedDimensions]
    memories: Mapping[str, DomainMemoryHandle] = field(default_factory=dict)
    direct: bool = True
    prepares: bool = True
    """True if the framework may prepare a plan for the dimensions."""


class NativeBinding:
    """Parts that ``Binding`` and ``AsyncBinding`` share: the memory, and a binding in the framework."""

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        model: NativeModel,
        options: BindingOptions,
    ) -> None:
        """To be called in a thread by coroutines, since the framework has to answer. Raises as ``Model.bind``."""
        self._calls = calls
        self._stub = stub
        dimensions, memories = options.dimensions, options.memories
        guessed = {t.name: (GUESS,) for t in model.inputs if t.element_type is None and t.name not in memories}
        kept = {name: opened(given) for name, given in dimensions.items() if name in memories}
        dimensions = {**guessed, **dimensions, **kept}
        self._model, self._options = model, options
        self._memories, self._given = memories, dimensions
        self._lengths = {
            t.name: first_of(dimensions[t.name])
            for t in model.inputs
            if t.is_open and t.name in dimensions and t.name not in memories
        }
        self._most = {name: most_of(dimensions[name]) for name in self._lengths}
        self._varies = any(_is_varied(dimensions[name]) for name in self._lengths)
        self.measures = options.measure_timing
        self._bind(self._lengths)

    def _bind(self, lengths: Mapping[str, Dimensions]) -> None:
        """Bind with memory for inputs of these dimensions, and more if they grow."""
        model, calls, options = self._model, self._calls, self._options
        dimensions = {
            name: room_for(given, lengths.get(name, ()))
            if self._varies and name not in self._memories
            else first_of(given)
            for name, given in self._given.items()
        }

        def bind(known: Mapping[str, Dimensions]) -> tuple[BindingMemory, wire.BindResponse]:
            memory = BindingMemory(model.inputs, model.outputs, known, self._memories, self._varies, model.memory)
            request = memory.bind_request(
                model.session_name, options.measure_timing, options.direct, options.prepares, calls.issue
            )
            return memory, calls.call(self._stub.Bind, request)

        self._memory, answer = bind(dimensions)
        if answer.insufficient_outputs:  # now their dimensions are known
            calls.release(self._stub.Unbind, wire.UnbindRequest(binding=answer.binding))
            self._memory, answer = bind({**dimensions, **output_dimensions(answer.insufficient_outputs)})
        self._handle = answer.binding
        channel = calls.take_channel(answer.channel_descriptor_id)
        run_channels = run_channels_of(
            answer, calls.take_channel, {tensor.name: tensor.dimensions for tensor in model.outputs}
        )
        self._memory.resize(output_dimensions(answer.outputs))
        names = [tensor.name for tensor in model.inputs]
        self._runs = BindingRuns(calls.place, channel, run_channels, self.measures, self._memory, names)
        self.dimensions = self._memory.dimensions
        self.inputs = self._memory.inputs
        self.outputs = self._memory.outputs
        if self._varies:
            self._show(lengths)

    def _show(self, lengths: Mapping[str, Dimensions]) -> None:
        self._lengths = dict(lengths)
        self._memory.resize_inputs(lengths)
        self._runs.resize(self._lengths)

    def takes(self, dimensions: Mapping[str, Dimensions]) -> bool:
        """Return whether runs may be for these dimensions of open inputs, without binding anew."""
        if self._varies:
            return self._memory.has_room(dimensions)
        return dimensions.items() <= self.dimensions.items()

    def _resize(self, dimensions: Mapping[str, Dimensions]) -> None:
        lengths = {**self._lengths, **{name: tuple(given) for name, given in dimensions.items()}}
        fixed = sorted(lengths.keys() - self._lengths.keys())
        if fixed or not self._varies:
            raise ValueError(
                f"got dimensions of {fixed or sorted(lengths)}, expected inputs that were bound with a range"
            )
        for name, found in dimensions.items():
            if not is_within(found, self._most[name]):
                raise ValueError(f"input {name!r} is to be {list(found)}, but it was bound as {self._given[name]}")
        if self._memory.has_room(lengths):
            self._show(lengths)
            return
        self._release()
        self._bind(lengths)

    @property
    def socket_bytes(self) -> int:
        """Bytes that went over the binding's channels, both ways."""
        return sum(channel.traffic.total for channel in self._runs.channels)

    @property
    def lost_run_channel(self) -> bool:
        """True if its runs were direct until the run channel closed. They go through the framework from then on."""
        return self._runs.lost_run_channel

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Copy arrays into the inputs, which become of the arrays' lengths if they were bound with a range.

        Raises ValueError if names, element types or dimensions differ, or an input has no memory for so much.
        """
        if self._varies:
            lengths = {**self._lengths, **{n: inputs[n].shape for n in self._lengths if n in inputs}}
            if not self._memory.has_room(lengths):
                rooms = {name: self.dimensions[name] for name in lengths}
                raise ValueError(f"got inputs of {lengths}, but their memory is for {rooms}: ``resize`` may make room")
            if lengths != self._lengths:
                self._show(lengths)
        self._memory.fill(inputs)

    def put(self, name: str, value: Value) -> None:
        """Copy a value into an input, in the form that ``Model.run`` takes: strings too, and other values that are no
        tensors of numbers, of which the memory is bytes.

        Raises ValueError if the value is not what the model takes, or needs more memory than the input has.
        """
        self._memory.put(name, value)

    def value(self, name: str) -> Value:
        """A copy of an output after a run, in the form that ``Model.run`` returns.

        Raises ValueError if it is none of ``outputs``.
        """
        return self._memory.value(name)

    def room(self, name: str) -> int:
        """The bytes of memory that an output has; 0 if it lies in memory of ``Framework.allocate``."""
        return self._memory.room(name)

    def _launch(self, wait_for: Sequence[Fence], deadline_ns: int, duration_ns: int) -> LaunchedRun:
        if self._varies or self._model.states:
            raise ValueError("a launch of a binding whose inputs have a range, or of a model that has a state")
        request = wire.LaunchRunRequest(
            binding=self._handle,
            wait_for_descriptor_ids=[self._calls.issue(fence.descriptor) for fence in wait_for],
            deadline_ns=deadline_ns,
            duration_ns=duration_ns,
        )
        return LaunchedRun(self._calls, self._stub, self._calls.call(self._stub.LaunchRun, request), self._runs)

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
        return self._runs.run(deadline_ns)

    def launch(
        self, wait_for: Sequence[Fence] = (), deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
    ) -> LaunchedRun:
        """Launch a run that begins when all fences have signalled, and may take ``duration_ns`` from then on. The next
        run may be begun when it has ended.

        Raises ValueError if an input was bound with a range or the model has a state; HalError: INVALID_ARGUMENT for a
        fence that is in error already.
        """
        return self._launch(wait_for, deadline_ns, duration_ns)

    def resize(self, dimensions: Mapping[str, Dimensions]) -> None:
        """Have the next runs be for these dimensions of inputs, 0 an empty axis: ``inputs`` has views of them, of which
        the values are undefined. Nothing is bound anew, but if the memory of an input without a maximum has to double.

        Raises ValueError if an input was not bound with a range, or not for as much.
        """
        self._resize(dimensions)

    def reset_state(self) -> None:
        """Have the next run begin with the initial values of the model's state.

        Raises HalError: INVALID_ARGUMENT if the model has no state, GENERAL_FAILURE during a run.
        """
        self._reset_state()

    def close(self) -> None:
        """Release it in the framework and on the devices. The views stay valid. Harmless when repeated."""
        self._release()


def _is_varied(dimensions: ReservedDimensions) -> bool:
    """True if dimensions are not those of all runs: one is a range, or a known 0, which no other binding can have."""
    return any(not isinstance(length, int) or length == 0 for length in dimensions)
