"""One session of a recording, on another device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.codec.lengths import lengths_from_wire
from nnhal.codec.model import extension_names_from_wire
from nnhal.codec.request import hints_from_wire
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.recording import INVALID_DEADLINE, DeviceRecording, DeviceRecordingError, RecordedCall, restored_model
from nnhal.remote import RemoteBurst, RemoteDevice, RemoteExecution, RemotePreparedModel
from nnhal.remote.buffer import RemoteBuffer
from nnhal.types import (
    NO_DEADLINE,
    Ashmem,
    BufferRole,
    ErrorStatus,
    ExecutionPreference,
    ExecutionResult,
    Model,
    Operand,
    Priority,
)
from nnhal.types.layout import Dimensions, describe
from nnhal.v1 import recording_pb2 as wire
from nnhal_tools.conformance.launched import awaited
from nnhal_tools.record.report import place
from nnhal_tools.replay.outcomes import ReplayReport, difference_of, is_random
from nnhal_tools.replay.requests import PlayedRequest, RequestMemory, UnplayableError

T = TypeVar("T")
PLAYED = ("preparation", "question", "request", "execution", "allocation", "copy", "release")
"""What calls are about that can be made again."""
_REUSABLE = "PreparedModel.CreateReusableExecution"
_FENCED = ("Channel.Launch", "ExecuteFenced", "ExecuteFencedWithConfig")
_OVER_BURSTS = ("Channel.Burst", "Channel.Run", "Channel.Chain", "Burst.")


@dataclass(slots=True)
class _PlayedModel:
    """A prepared model of the replay."""

    model: Model
    prepared: RemotePreparedModel
    burst: RemoteBurst | None = None

    @property
    def outputs(self) -> list[Operand]:
        return [self.model.main.operands[index] for index in self.model.main.output_indexes]

    def bursting(self) -> RemoteBurst:
        """Its burst, which is made when it is first needed."""
        if self.burst is None:
            self.burst = self.prepared.configure_execution_burst()
        return self.burst

    def release(self) -> None:
        if self.burst is not None:
            self.burst.close()
        self.prepared.release()


@dataclass(slots=True)
class _PlayedBuffer:
    """A buffer of the replay."""

    buffer: RemoteBuffer
    held: tuple[Model, Operand] | None
    """The model and the operand whose value lies in it; None if no role says so."""
    is_known: bool = True
    """Whether it has the values that it had in the recording, or was to have."""


class PlayedSession:
    """Makes the calls of one session again, one after the other."""

    def __init__(
        self,
        recording: DeviceRecording,
        device: RemoteDevice,
        report: ReplayReport,
        calls: Sequence[RecordedCall],
        numbers: Sequence[int],
    ) -> None:
        """``calls`` are those of all sessions, ``numbers`` the places of this session's calls among them."""
        self._recording = recording
        self._device = device
        self._report = report
        self._memory = RequestMemory()
        self._models: dict[int, _PlayedModel] = {}
        self._requests: dict[int, PlayedRequest] = {}
        self._executions: dict[int, RemoteExecution] = {}
        self._buffers: dict[int, _PlayedBuffer] = {}
        self._last_uses = _last_uses(recording, calls, numbers)

    def play(self, number: int, recorded: RecordedCall) -> None:
        """Make one call again, and compare how it ends.

        Raises DeadObjectError if the device ends, TransportError if it does not answer.
        """
        try:
            self._recording.require_bounded(recorded.event)
            match recorded.event.WhichOneof("about"):
                case "preparation":
                    self._prepare(recorded)
                case "question":
                    self._ask(recorded)
                case "request":
                    self._bind(recorded)
                case "execution":
                    self._execute(recorded)
                case "allocation":
                    self._allocate(recorded)
                case "copy":
                    self._copy(recorded)
                case "release":
                    self._release(number, recorded)
        except (UnplayableError, DeviceRecordingError) as error:
            self._report.leave_out(str(error))
        except HalError:  # of decoding: what a device answers has been looked at before
            self._report.leave_out("calls whose arguments cannot be made again")

    def close(self) -> None:
        """Leave the device."""
        self._device.close()

    def _prepare(self, recorded: RecordedCall) -> None:
        about = recorded.event.preparation
        if about.is_from_cache and not about.prepared_model:
            raise UnplayableError("preparations from a cache that failed")
        if about.has_cache and recorded.event.status:
            raise UnplayableError("preparations for a cache that failed")
        model = self._model(about.model)
        deadline_ns = _deadline(about.deadline_in_ns if about.HasField("deadline_in_ns") else None)
        # As they were, valid or not.
        preference, priority = cast(ExecutionPreference, about.preference), cast(Priority, about.priority)
        if about.prepared_model and not self._is_supported(about.prepared_model, model):
            return
        hints = hints_from_wire(about.compilation_hints)
        names = extension_names_from_wire(about.extension_name_to_prefix)
        prepared = self._attempt(
            recorded,
            lambda: self._device.prepare_model(model, preference, priority, deadline_ns, hints, names),
            about.prepared_model,
        )
        if prepared is not None and about.prepared_model:
            self._models[about.prepared_model] = _PlayedModel(model, prepared)
            self._report.models[about.prepared_model] = model

    def _is_supported(self, number: int, model: Model) -> bool:
        """True if the device supports all of a model; else the reasons are noted, as for a conformance test."""
        self._report.made()
        if all(self._device.supported_operations(model)):
            return True
        support = self._device.assess_model(model).operations
        reasons = dict.fromkeys(f"{s.code}: got {s.got}, allowed {s.allowed}" for s in support if not s.supported)
        self._report.declined[number] = "; ".join(reasons)
        return False

    def _ask(self, recorded: RecordedCall) -> None:
        model = self._model(recorded.event.question.model)
        self._attempt(recorded, lambda: self._device.supported_operations(model))

    def _bind(self, recorded: RecordedCall) -> None:
        about = recorded.event.request
        played = self._memory.request(about, self._token)
        model = self._model_of(about.prepared_model)
        if about.request:
            self._requests[about.request] = played
        if recorded.event.method == _REUSABLE:
            made = self._attempt(
                recorded,
                lambda: model.prepared.create_reusable_execution(played.request, played.config),
                about.prepared_model,
            )
            if made is not None and about.request:
                self._executions[about.request] = made
        elif not about.request:  # it was refused as it was executed
            self._attempt(recorded, lambda: self._run(recorded, model, played, None, NO_DEADLINE), about.prepared_model)

    def _execute(self, recorded: RecordedCall) -> None:
        about = recorded.event.execution
        if about.request not in self._requests:
            raise UnplayableError("executions of requests that could not be bound again")
        played = self._requests[about.request]
        model, execution = self._model_of(played.model), self._executions.get(about.request)
        if about.lengths and not model.prepared.calls.has_lengths_by_run:
            raise UnplayableError("runs with lengths of inputs, which the device does not take")
        is_known = self._fill(about, played)
        deadline_ns = _deadline(about.deadline_in_ns if about.HasField("deadline_in_ns") else None)
        result = self._attempt(
            recorded, lambda: self._run(recorded, model, played, execution, deadline_ns), played.model
        )
        written = [self._buffers[number] for one in played.request.outputs if (number := played.buffer_of(one))]
        for buffer in written:
            buffer.is_known = is_known and result is not None
        if result is not None and not recorded.event.status:
            self._report.ran(played.model, about)
            self._compare(recorded, model, played, result, is_known)

    def _fill(self, about: wire.RecordedExecution, played: PlayedRequest) -> bool:
        """Write the inputs; return whether all have the values of the recording."""
        is_known = bool(about.inputs) or not played.request.inputs
        for number, argument in enumerate(played.request.inputs):
            if argument.has_no_value:
                continue
            buffer = played.buffer_of(argument)
            if buffer:
                is_known &= self._buffers[buffer].is_known
                continue
            content = about.inputs[number] if number < len(about.inputs) else wire.RecordedContent()
            if self._recording.has(content):
                played.fill(number, self._recording.content(content))
            else:
                is_known = is_known and not argument.location.length
        return is_known

    def _run(
        self,
        recorded: RecordedCall,
        model: _PlayedModel,
        played: PlayedRequest,
        execution: RemoteExecution | None,
        deadline_ns: int,
    ) -> ExecutionResult:
        """Execute a request in the way in which it was executed. Raises HalError."""
        method, request, config = recorded.event.method, played.request, played.config
        if method.endswith(_FENCED):
            if execution is not None:
                return awaited(execution.execute_fenced((), deadline_ns))
            return awaited(model.prepared.execute_fenced(request, (), config, deadline_ns))
        if method.startswith(_OVER_BURSTS):
            if execution is not None:
                burst = model.bursting()
                burst.start(execution, deadline_ns, lengths_from_wire(recorded.event.execution.lengths))
                return burst.finish(execution).result
            no_tokens = [-1] * len(request.pools)
            return model.bursting().execute(request, no_tokens, config, deadline_ns).result
        if execution is not None:
            return execution.execute(deadline_ns)
        return model.prepared.execute(request, config, deadline_ns)

    def _compare(
        self,
        recorded: RecordedCall,
        model: _PlayedModel,
        played: PlayedRequest,
        result: ExecutionResult,
        is_known: bool,
    ) -> None:
        about, number = recorded.event.execution, played.model
        wrong = _difference_of_results(about, result)
        if wrong:
            self._report.differ(place(recorded), wrong, number)
            return
        if not result.output_sufficient_size:  # there are no values, in the recording neither
            return
        if not about.outputs or not is_known:
            self._report.leave_out("executions whose values are not in the recording: their answers were compared only")
            return
        if is_random(model.model):
            self._report.leave_out("executions whose outputs are drawn: their answers were compared only")
            return
        for index, (content, operand) in enumerate(zip(about.outputs, model.outputs, strict=True)):
            if not self._recording.has(content):
                continue
            expected = self._recording.content(content)
            wrong = difference_of(model.model, operand, expected, played.output(index, len(expected)))
            self._report.compared()
            if wrong:
                self._report.differ(place(recorded), f"output {index}: {wrong}", number, in_values=True)
                return

    def _allocate(self, recorded: RecordedCall) -> None:
        about = recorded.event.allocation
        models = [self._model_of(number) for number in about.prepared_models]
        inputs, outputs = (
            [BufferRole(role.model_index, role.io_index, role.probability) for role in roles]
            for roles in (about.input_roles, about.output_roles)
        )
        dimensions, largest = tuple(about.desc.dimensions), tuple(about.largest_dimensions)
        made = self._attempt(
            recorded,
            lambda: self._device.allocate([model.prepared for model in models], inputs, outputs, dimensions, largest),
        )
        if made is None or not about.buffer:
            return
        self._buffers[about.buffer] = buffer = _PlayedBuffer(made, _held_in(about, models))
        if about.HasField("value"):  # what it held when the recording began
            buffer.is_known = self._recording.has(about.value)
            size = about.value.size
            data = self._recording.content(about.value) if buffer.is_known else bytes(size)
            if 0 in about.dimensions:
                made.empty(tuple(about.dimensions))
            elif size:
                made.copy_from(_memory(data), tuple(about.dimensions))

    def _copy(self, recorded: RecordedCall) -> None:
        about = recorded.event.copy
        buffer = self._buffer(about.buffer)
        if about.empty:
            buffer.is_known = self._succeeds(recorded, lambda: buffer.buffer.empty(tuple(about.empty)))
            return
        if not about.value.size:  # a copy that failed, or of nothing
            raise UnplayableError("copies whose memory is not recorded")
        if about.is_into_buffer:
            is_known = self._recording.has(about.value)
            source = _memory(self._recording.content(about.value) if is_known else bytes(about.value.size))
            done = self._succeeds(recorded, lambda: buffer.buffer.copy_from(source, tuple(about.dimensions)))
            buffer.is_known = is_known and done
            return
        target = create_ashmem(about.value.size, "nnhal-replay")
        if not self._succeeds(recorded, lambda: buffer.buffer.copy_to(target)) or recorded.event.status:
            return
        if not buffer.is_known or buffer.held is None or not self._recording.has(about.value):
            self._report.leave_out("values of buffers that are not in the recording: they were not compared")
            return
        got: Bytes = open_pool(target, writable=False).read(0, about.value.size)
        wrong = difference_of(*buffer.held, self._recording.content(about.value), got)
        self._report.compared()
        if wrong:
            self._report.differ(place(recorded), f"buffer {about.buffer}: {wrong}")

    def _release(self, number: int, recorded: RecordedCall) -> None:
        about = recorded.event.release
        model = about.prepared_model
        if model in self._models and self._last_uses.get(model, 0) < number:  # its executions may go on after that
            self._models.pop(model).release()
        if about.buffer in self._buffers:
            self._buffers[about.buffer].buffer.release()
        if about.request in self._executions:
            self._executions.pop(about.request).release()

    def _succeeds(self, recorded: RecordedCall, call: Callable[[], None]) -> bool:
        """Make a call without a result as ``_attempt`` does, and return whether it has not failed."""

        def done() -> bool:
            call()
            return True

        return self._attempt(recorded, done) is not None

    def _attempt(self, recorded: RecordedCall, call: Callable[[], T], model: int = 0) -> T | None:
        """Make a call, and compare its status with the recorded one. Returns None if it has failed."""
        status = ErrorStatus(recorded.event.status)
        self._report.made()
        try:
            result = call()
        except HalError as error:
            if error.status != status:
                was = "it succeeded" if status == ErrorStatus.NONE else status.name
                self._report.differ(place(recorded), f"{error}; in the recording {was}", model)
            return None
        if status != ErrorStatus.NONE:
            said = f": {recorded.event.message}" if recorded.event.message else ""
            self._report.differ(place(recorded), f"it succeeds; in the recording {status.name}{said}", model)
        return result

    def _model(self, recorded: wire.RecordedModel) -> Model:
        try:
            return restored_model(recorded, self._recording.content)
        except HalError as error:
            raise UnplayableError("models that could not be read") from error

    def _model_of(self, number: int) -> _PlayedModel:
        if number not in self._models:
            raise UnplayableError("calls about models that the device has not prepared")
        return self._models[number]

    def _buffer(self, number: int) -> _PlayedBuffer:
        if number not in self._buffers:
            raise UnplayableError("calls about buffers that the device has not allocated")
        return self._buffers[number]

    def _token(self, number: int) -> int:
        return self._buffer(number).buffer.token


def _last_uses(recording: DeviceRecording, calls: Sequence[RecordedCall], numbers: Sequence[int]) -> dict[int, int]:
    """The last call of each prepared model that needs it, by their numbers."""
    found: dict[int, int] = {}
    for number in numbers:
        event = calls[number].event
        if event.HasField("request"):
            found[event.request.prepared_model] = number
        elif event.HasField("execution") and event.execution.request in recording.requests:
            found[recording.requests[event.execution.request].prepared_model] = number
        elif event.HasField("allocation"):
            found.update(dict.fromkeys(event.allocation.prepared_models, number))
    return found


def _deadline(in_ns: int | None) -> int:
    if in_ns == INVALID_DEADLINE:
        return NO_DEADLINE - 1
    return NO_DEADLINE if in_ns is None else now_ns() + in_ns


def _memory(data: bytes) -> Ashmem:
    memory = create_ashmem(len(data), "nnhal-replay")
    open_pool(memory, writable=True).write(0, np.frombuffer(data, np.uint8))
    return memory


def _held_in(about: wire.RecordedAllocation, models: list[_PlayedModel]) -> tuple[Model, Operand] | None:
    """Content of a buffer, by its first role."""
    for roles, is_output in ((about.input_roles, False), (about.output_roles, True)):
        for role in roles:
            model = models[role.model_index].model
            indexes = model.main.output_indexes if is_output else model.main.input_indexes
            return model, model.main.operands[indexes[role.io_index]]
    return None


def _difference_of_results(about: wire.RecordedExecution, got: ExecutionResult) -> str:
    """Return what is wrong with an answer besides values; empty if nothing is. A device may tell of shapes, or need
    not.
    """
    if about.result.output_sufficient_size != got.output_sufficient_size:
        fits, did = ("fit", "did not") if got.output_sufficient_size else ("do not fit", "did")
        return f"the outputs {fits} their memory; in the recording they {did}"
    told: list[Dimensions] = [tuple(shape.dimensions) for shape in about.result.output_shapes]
    found = [shape.dimensions for shape in got.output_shapes]
    if told and found:
        for index, (wanted, dimensions) in enumerate(zip(told, found, strict=False)):
            if wanted != dimensions:
                return f"output {index}: dimensions {describe(dimensions)}; in the recording {describe(wanted)}"
    return ""
