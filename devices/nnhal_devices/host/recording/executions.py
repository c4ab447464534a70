"""Prepared models and executions of a device that may be recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.codec.lengths import Lengths
from nnhal.errors import HalError
from nnhal.types import ExecutionConfig, ExecutionResult, Request, RequestArgument
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, is_extension
from nnhal_devices.host.memory.arguments import BoundArguments
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.memory.staging import Staging, UsedPool
from nnhal_devices.host.recording.active import ActiveRecording, client_of
from nnhal_devices.host.recording.calls import SERVED
from nnhal_devices.host.recording.notes import RunNote, Values
from nnhal_devices.host.recording.requests import form_of
from nnhal_devices.host.runs.bound_run import Conclude
from nnhal_devices.host.runs.execution import BURST, LAUNCH_CHANNEL, Execution, Wanted
from nnhal_devices.host.runs.prepared_model import PoolOpener, PreparedModel

_NOTHING: Values = ()


class RecordingPreparedModel(PreparedModel):
    """A prepared model that tells a recording of its requests."""

    def __init__(self, recording: Callable[[], ActiveRecording | None], *arguments: Any) -> None:
        """``recording`` returns the one that is being made; ``arguments`` are those of any prepared model."""
        super().__init__(*arguments)
        self.recording = recording

    def bind(
        self,
        request: Request,
        config: ExecutionConfig,
        opener: PoolOpener | None = None,
        allow_unspecified_output: bool = True,
    ) -> Execution:
        """Bind a request to memory, as any prepared model does; record it, also if it is refused."""
        active = self.recording()
        if active is None:
            return super().bind(request, config, opener, allow_unspecified_output)
        started_ns, method = now_ns(), _method(BURST)
        try:
            bound = super().bind(request, config, opener, allow_unspecified_output)
        except HalError as error:
            refusal, ended_ns = HalError(error.status, error.message), now_ns()  # without the frames of the other
            form = form_of(request, client_of(self), was_refused=True)
            active.notes.add(lambda: active.request_events(self, form, config, refusal, method, started_ns, ended_ns))
            raise
        if isinstance(bound, RecordingExecution):
            ended_ns = now_ns()
            active.notes.add(lambda: active.request(bound, method, started_ns, ended_ns))
        return bound

    def make_execution(
        self, request: Request, pools: Mapping[int, UsedPool], arguments: BoundArguments, config: ExecutionConfig
    ) -> Execution:
        """Make an execution that tells the recording of its runs."""
        return RecordingExecution(self, request, pools, arguments, config)


class RecordingExecution(Execution):
    """An execution that tells a recording of its runs."""

    def __init__(
        self,
        prepared: RecordingPreparedModel,
        request: Request,
        pools: Mapping[int, UsedPool],
        arguments: BoundArguments,
        config: ExecutionConfig,
    ) -> None:
        super().__init__(prepared, arguments, config)
        self.prepared_model = prepared
        self.form = form_of(request, client_of(prepared))
        self.config = config
        self._recording = prepared.recording
        self._used = pools
        self._dimensions = [output.dimensions for output in arguments.outputs]
        self._values: dict[int, tuple[Values, Values]] = {}

    @property
    def buffers(self) -> list[DeviceBuffer]:
        """Return those that its arguments lie in."""
        return self.uses.buffers if self.uses is not None else []

    def run(
        self, deadline_ns: int, is_wanted: Wanted | None = None, asked_over: str = "", lengths: Lengths = ()
    ) -> tuple[ExecutionResult, Staging]:
        """Run it once, and record that. Raises as any execution."""
        active = self._recording()
        if active is None:
            return Execution.run(self, deadline_ns, is_wanted, asked_over, lengths)

        def run() -> tuple[ExecutionResult, Staging]:
            return Execution.run(self, deadline_ns, is_wanted, asked_over, lengths)

        return self._noted(active, run, asked_over or _method(BURST), deadline_ns, lengths)

    def run_held(self, deadline_ns: int) -> tuple[ExecutionResult, Staging]:
        """Run it once, while it is held, and record that if it was launched. Raises as any execution."""
        active = self._recording()
        if active is None or not (active.wants_contents or self.is_reserved or self.uses is not None):
            return super().run_held(deadline_ns)
        for buffer in self.buffers:
            active.meet(buffer, client_of(self.prepared_model))

        def run() -> tuple[ExecutionResult, Staging]:
            inputs = self._input_values(active)
            try:
                done = Execution.run_held(self, deadline_ns)
            except HalError:
                self._keep(inputs, _NOTHING)
                raise
            self._keep(inputs, self._output_values(active, done[0]))
            return done

        return self._noted(active, run, _method(LAUNCH_CHANNEL), deadline_ns) if self.is_reserved else run()

    def enqueue_held(self, deadline_ns: int) -> Conclude:
        """Enqueue a run, and record it when it has been concluded. Raises as any execution."""
        active = self._recording()
        if active is None or not self.can_be_enqueued:
            return super().enqueue_held(deadline_ns)  # which may be a run of the one above
        started_ns, method = now_ns(), _method(LAUNCH_CHANNEL)
        conclude = super().enqueue_held(deadline_ns)

        def conclude_and_note() -> tuple[ExecutionResult, Staging]:
            done = conclude()
            # What is in the queue may write the inputs of what is behind it: they are known when it has run.
            self._keep(self._input_values(active), self._output_values(active, done[0]))
            self._note(active, method, started_ns, deadline_ns, done[0])
            return done

        return conclude_and_note

    def _noted(
        self,
        active: ActiveRecording,
        run: Callable[[], tuple[ExecutionResult, Staging]],
        method: str,
        deadline_ns: int,
        lengths: Lengths = (),
    ) -> tuple[ExecutionResult, Staging]:
        """Return what a run returns, and note how it has ended."""
        started_ns = now_ns()
        try:
            done = run()
        except HalError as error:
            failure = HalError(error.status, error.message)
            self._note(active, method, started_ns, deadline_ns, failure, lengths)
            raise
        self._note(active, method, started_ns, deadline_ns, done[0], lengths)
        return done

    def _keep(self, inputs: Values, outputs: Values) -> None:
        """Keep the values of a run until it is noted, by the same thread."""
        if inputs or outputs:
            self._values[threading.get_ident()] = inputs, outputs

    def _note(
        self,
        active: ActiveRecording,
        method: str,
        started_ns: int,
        deadline_ns: int,
        answer: ExecutionResult | HalError,
        lengths: Lengths = (),
    ) -> None:
        inputs, outputs = self._values.pop(threading.get_ident(), (_NOTHING, _NOTHING)) if self._values else _NO_VALUES
        active.notes.add(RunNote(self, method, started_ns, now_ns(), deadline_ns, answer, inputs, outputs, lengths))

    def _input_values(self, active: ActiveRecording) -> Values:
        if not active.wants_contents:
            return _NOTHING
        sizes = [argument.location.length for argument in self.form.inputs]
        indexes = self.prepared_model.model.model.main.input_indexes
        for position, dimensions in self._bound.lengths:
            sizes[position] = self._size(indexes[position], dimensions, sizes[position])
        return [self._value(active, argument, size) for argument, size in zip(self.form.inputs, sizes, strict=True)]

    def _output_values(self, active: ActiveRecording, result: ExecutionResult) -> Values:
        if not active.wants_contents or not result.output_sufficient_size:
            return _NOTHING
        # The zeros of shapes are lengths.
        known = [shape.dimensions for shape in result.output_shapes] or self._dimensions
        indexes = self.prepared_model.model.model.main.output_indexes
        return [
            self._value(active, argument, self._size(index, dimensions, argument.location.length))
            for argument, index, dimensions in zip(self.form.outputs, indexes, known, strict=True)
        ]

    def _value(self, active: ActiveRecording, argument: RequestArgument, size: int) -> Bytes | int | None:
        used = None if argument.has_no_value else self._used.get(argument.location.pool_index)
        if used is None:
            return None
        if not active.notes.has_room(size):
            return size
        try:
            return used.pool.read(argument.location.offset, size)
        except (HalError, MemoryError):  # of a truncated file, the run itself tells
            active.notes.give_back(size)
            return size

    def _size(self, index: int, dimensions: Dimensions, most: int) -> int:
        """The bytes of an operand of these dimensions, ``most`` of them, as far as its type says."""
        code = self.prepared_model.model.model.main.operands[index].type
        if is_extension(code):
            element = self.prepared_model.element_sizes.get(code)
            return most if element is None else min(element * prod(dimensions), most)
        return min(ELEMENT_TYPES[code].itemsize * prod(dimensions), most)


_NO_VALUES = (_NOTHING, _NOTHING)


def _method(asked_over: str) -> str:
    """The name of the call that is being served; it has been noted then."""
    served = SERVED.get()
    if served is None:
        return asked_over
    served.is_noted = True
    return served.title
