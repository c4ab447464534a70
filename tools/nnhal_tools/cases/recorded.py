"""The calls of a recording as cases: what a device is asked again, and what the recorded one has answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple, cast

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.codec.lengths import lengths_from_wire
from nnhal.codec.model import extension_names_from_wire
from nnhal.codec.request import hints_from_wire
from nnhal.errors import HalError
from nnhal.recording import (
    INVALID_DEADLINE,
    MAX_CONTENT_BYTES,
    DeviceRecording,
    DeviceRecordingError,
    RecordedCall,
    restored_model,
)
from nnhal.types import ErrorStatus, ExecutionPreference, Model, Operand, OperationType, Priority
from nnhal.types.layout import Dimensions, fully_specified
from nnhal.v1 import recording_pb2 as wire
from nnhal.v1 import request_pb2
from nnhal_tools.cases.case import (
    SYNC_OVER_ASHMEM,
    VALUES,
    Case,
    CaseOutcome,
    ExecutionMode,
    Expectation,
    MemoryChoice,
    Verdict,
    Way,
)
from nnhal_tools.cases.execution import deadline_in
from nnhal_tools.distance.elements import mismatch
from nnhal_tools.distance.limits import element_rule
from nnhal_tools.record.report import place

_FENCED = ("Channel.Launch", "ExecuteFenced", "ExecuteFencedWithConfig")
_OVER_BURSTS = ("Channel.Burst", "Channel.Run", "Channel.Chain", "Burst.")
_REUSABLE = "Execution."
_TOKEN = "token"


class UnplayableError(Exception):
    """A call cannot be made again; the message says why."""


class _Held(NamedTuple):
    """What a buffer holds."""

    data: bytes
    dimensions: Dimensions
    """Empty if they are those of the argument that it is."""


class RecordedCases:
    """The cases of a recording, one after the other in the order in which the calls began.

    Values in buffers of the device are followed: an execution reads what earlier cases have written, so the cases must
    run one at a time.
    """

    def __init__(self, recording: DeviceRecording, left_out: Counter[str]) -> None:
        """``left_out`` counts the calls that are no cases, or whose values are not compared, by the reason."""
        self._recording, self._left_out = recording, left_out
        self._models: dict[int, Model] = {}
        self._held: dict[int, _Held | None] = {}
        """What buffers hold by now, by their numbers; None if that is not known."""
        self._operands: dict[int, tuple[Model, Operand]] = {}
        """The argument that a buffer is for."""

    def __iter__(self) -> Iterator[Case | CaseOutcome]:
        for call in self._recording.calls:
            try:
                self._recording.require_bounded(call.event)
                found = self._case_of(call)
            except (UnplayableError, DeviceRecordingError) as error:
                self._left_out[str(error)] += 1
            except (HalError, IndexError, ValueError):  # of decoding, or of a call that contradicts itself
                self._left_out["calls whose arguments cannot be made again"] += 1
            else:
                yield from () if found is None else (found,)

    def _case_of(self, call: RecordedCall) -> Case | CaseOutcome | None:
        event = call.event
        match event.WhichOneof("about"):
            case "preparation":
                return self._preparation(call)
            case "question" if event.status:
                model = restored_model(event.question.model, self._recording.content)
                return Case(place(call), "questions", model, (), (), status=_status(event), is_prepared_only=True)
            case "request" if event.status:
                raise UnplayableError("requests that were refused")
            case "execution":
                return self._execution(call)
            case "allocation":
                self._allocation(event.allocation)
            case "copy" if not event.status:
                return self._copy(call)
            case "release":
                self._models.pop(event.release.prepared_model, None)
        return None

    def _preparation(self, call: RecordedCall) -> Case:
        about, number = call.event.preparation, call.event.preparation.prepared_model
        if call.event.status and (about.is_from_cache or about.has_cache):
            raise UnplayableError("preparations with a cache that failed")
        model = self._model(number) if number else restored_model(about.model, self._recording.content)
        preparing = {
            # As they were, valid or not.
            "preference": cast(ExecutionPreference, about.preference),
            "priority": cast(Priority, about.priority),
            "hints": hints_from_wire(about.compilation_hints),
            "extension_names": extension_names_from_wire(about.extension_name_to_prefix),
        }
        if about.HasField("deadline_in_ns"):
            preparing["deadline_ns"] = deadline_in(_seconds(about.deadline_in_ns))
        group = f"model {number}" if number else "refused models"
        return Case(
            place(call), group, model, (), (), status=_status(call.event), is_prepared_only=True, preparing=preparing
        )

    def _execution(self, call: RecordedCall) -> Case:
        about = call.event.execution
        request = self._recording.requests.get(about.request)
        if request is None:
            raise UnplayableError("executions of requests that are not in the recording")
        if not call.event.status and not about.result.output_sufficient_size:
            raise UnplayableError("executions whose outputs did not fit their memory")
        model = self._model(request.prepared_model)
        inputs, empty, is_known = self._inputs(about, request, model)
        if not is_known:
            self._left_out["executions whose values are not in the recording: their answers were compared only"] += 1
        outputs = self._outputs(call.event, request, model, is_known and not _is_random(model))
        buffers = [_buffer(request, argument) for argument in request.arguments.outputs]
        written = {number: buffer for number, buffer in enumerate(buffers) if buffer}
        self._held.update(dict.fromkeys(written.values()))

        def take(values: Sequence[Bytes]) -> None:
            for number, buffer in written.items():
                self._held[buffer] = _Held(values[number].tobytes(), outputs[number].values.shape)

        return Case(
            place(call),
            f"model {request.prepared_model}",
            model,
            tuple(inputs),
            tuple(outputs),
            status=_status(call.event),
            way=_way(call.event.method, request, model),
            seconds=_seconds(about.deadline_in_ns) if about.HasField("deadline_in_ns") else None,
            lengths=empty,
            taken=take if is_known and written else None,
        )

    def _inputs(
        self, about: wire.RecordedExecution, request: wire.RecordedRequest, model: Model
    ) -> tuple[list[Array | None], list[tuple[int, Dimensions]], bool]:
        """Return the inputs, the lengths of empty ones, and whether all have the values of the recording; zeros stand
        for others.
        """
        lengths, found, is_known = dict(lengths_from_wire(about.lengths)), list[Array | None](), True
        empty = list[tuple[int, Dimensions]]()
        for number, (argument, index) in enumerate(
            zip(request.arguments.inputs, model.main.input_indexes, strict=True)
        ):
            if argument.has_no_value:
                found.append(None)
                continue
            operand = model.main.operands[index]
            element, _, _ = element_rule(model, operand.type)
            content = about.inputs[number] if number < len(about.inputs) else wire.RecordedContent()
            held: _Held | None = None
            if buffer := _buffer(request, argument):
                held = self._held.get(buffer)
            elif self._recording.has(content):
                held = _Held(self._recording.content(content), ())
            known = held.dimensions if held else ()
            shape = lengths.get(number) or known or tuple(argument.dimensions) or operand.dimensions
            is_known &= held is not None or not prod(shape)
            # In a request 0 is an unknown length: an empty input is the largest one, with its lengths beside it.
            largest = tuple(length or 1 for length in shape)
            values = _zeros(largest, element)
            data = np.frombuffer(b"" if held is None else held.data[: values.nbytes], np.uint8)
            values.reshape(-1).view(np.uint8)[: data.size] = data
            found.append(values)
            if largest != shape:
                empty.append((number, shape))
        return found, empty, is_known

    def _outputs(
        self, event: wire.RecordedEvent, request: wire.RecordedRequest, model: Model, is_known: bool
    ) -> list[Expectation]:
        about, found = event.execution, []
        shapes = [tuple(shape.dimensions) for shape in about.result.output_shapes]
        for number, (argument, index) in enumerate(
            zip(request.arguments.outputs, model.main.output_indexes, strict=True)
        ):
            operand = model.main.operands[index]
            element, absolute, relative = element_rule(model, operand.type)
            shape = shapes[number] if shapes else tuple(argument.dimensions) or operand.dimensions
            content = about.outputs[number] if number < len(about.outputs) else wire.RecordedContent()
            if event.status:  # nothing is expected, but room as there was
                values = _zeros((max(argument.location.length, prod(shape) * element.itemsize),), np.dtype(np.uint8))
            elif self._recording.has(content):
                data = self._recording.content(content)
                values = np.frombuffer(data, element, len(data) // element.itemsize)
                values = values.reshape(shape) if prod(shape) == values.size else values
            else:
                values = _zeros(shape, element)
            is_compared = is_known and not event.status and self._recording.has(content)
            found.append(Expectation(values, is_compared, absolute, relative))
        return found

    def _allocation(self, about: wire.RecordedAllocation) -> None:
        for roles, is_output in ((about.input_roles, False), (about.output_roles, True)):
            for role in roles if about.buffer else ():
                model = self._model(about.prepared_models[role.model_index])
                indexes = model.main.output_indexes if is_output else model.main.input_indexes
                self._operands.setdefault(about.buffer, (model, model.main.operands[indexes[role.io_index]]))
        if about.HasField("value"):
            self._hold(about.buffer, about.value, tuple(about.dimensions))

    def _copy(self, call: RecordedCall) -> CaseOutcome | None:
        about = call.event.copy
        if about.is_into_buffer:
            self._hold(about.buffer, about.value, tuple(about.empty or about.dimensions))
            return None
        held, operand = self._held.get(about.buffer), self._operands.get(about.buffer)
        if held is None or operand is None or not self._recording.has(about.value):
            raise UnplayableError("values of buffers that are not in the recording: they were not compared")
        element, absolute, relative = element_rule(operand[0], operand[1].type)
        expected, got = (np.frombuffer(data, element) for data in (self._recording.content(about.value), held.data))
        wrong = (
            mismatch(expected, got, absolute, relative)
            if expected.size == got.size
            else f"{got.nbytes} bytes, recorded {expected.nbytes}"
        )
        verdict, reason = (Verdict.FAILED, f"buffer {about.buffer}: {wrong}") if wrong else (Verdict.PASSED, "")
        way = (ExecutionMode.SYNC, MemoryChoice.TOKEN)
        return CaseOutcome(
            place(call), f"buffer {about.buffer}", "", "", *way, verdict, reason, VALUES if wrong else ""
        )

    def _hold(self, buffer: int, content: wire.RecordedContent, dimensions: Dimensions) -> None:
        is_known = 0 in dimensions or self._recording.has(content)
        data = b"" if 0 in dimensions or not is_known else self._recording.content(content)
        self._held[buffer] = _Held(data, dimensions) if is_known else None

    def _model(self, number: int) -> Model:
        """Return a prepared model's model: the same object until the prepared model is released."""
        if number not in self._models:
            if number not in self._recording.models:
                raise UnplayableError("calls about models that are not in the recording")
            try:
                self._models[number] = restored_model(self._recording.models[number], self._recording.content)
            except (HalError, DeviceRecordingError) as error:
                raise UnplayableError(f"calls about models that could not be read: {error}") from error
        return self._models[number]


def _buffer(request: wire.RecordedRequest, argument: request_pb2.RequestArgument) -> int:
    """The number of the buffer that an argument lies in; 0 if it lies in none."""
    if argument.has_no_value or request.pool_kinds[argument.location.pool_index] != _TOKEN:
        return 0
    return int(request.arguments.pools[argument.location.pool_index].token)


def _way(method: str, request: wire.RecordedRequest, model: Model) -> Way:
    """The way in which a request was executed. Direct runs and stages of chains become runs over a burst."""
    operands = [model.main.operands[index] for index in (*model.main.input_indexes, *model.main.output_indexes)]
    is_open = not all(fully_specified(operand.type, operand.dimensions) for operand in operands)
    mode, memory = SYNC_OVER_ASHMEM
    if method.endswith(_FENCED) and not is_open:
        mode = ExecutionMode.FENCED
    elif method.startswith(_OVER_BURSTS):
        mode = ExecutionMode.BURST
    elif method.startswith(_REUSABLE):
        mode = ExecutionMode.REUSABLE
    kinds = [kind for kind in request.pool_kinds if kind in set(MemoryChoice)]
    if kinds:
        memory = MemoryChoice(_TOKEN if _TOKEN in kinds else kinds[0])
    return mode, MemoryChoice.ASHMEM if memory == MemoryChoice.TOKEN and is_open else memory


def _zeros(shape: Dimensions, element: np.dtype[np.generic]) -> Array:
    if prod(shape) * element.itemsize > MAX_CONTENT_BYTES:
        raise UnplayableError(f"calls with values of more than {MAX_CONTENT_BYTES} bytes")
    return np.zeros(shape, element)


def _status(event: wire.RecordedEvent) -> ErrorStatus:
    return ErrorStatus(event.status)


def _seconds(in_ns: int) -> float:
    if in_ns == INVALID_DEADLINE:
        raise UnplayableError("calls with deadlines that were no instants")
    return max(in_ns, 0) / 1e9


def _is_random(model: Model) -> bool:
    """True if outputs are drawn: other runs may have other values."""
    return any(
        operation.type == OperationType.RANDOM_MULTINOMIAL
        for graph in (model.main, *model.referenced)
        for operation in graph.operations
    )
