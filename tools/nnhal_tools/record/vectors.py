"""Conformance vectors out of a recording: each execution with its values is a test of what the device has answered."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.codec.lengths import lengths_from_wire
from nnhal.errors import HalError
from nnhal.recording import DeviceRecording, DeviceRecordingError, restored_model
from nnhal.types import ErrorStatus, Model, Operand
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, fully_specified, is_extension, is_scalar
from nnhal.v1 import recording_pb2 as wire
from nnhal_tools.conformance.vectors import vector_of
from nnhal_tools.conformance.written import vector_line

_MOST_VALUES = 64 << 20
"""Bytes of values and constants of one test, which are numbers in text then."""
_MOST_CHARACTERS = 1 << 30
"""The most characters of a file of vectors."""


class _UnwritableError(Exception):
    """An execution cannot be a vector; the message says why."""


def vectors_of(recording: DeviceRecording, group: str) -> tuple[list[str], Counter[str]]:
    """Return tests as lines of a file of vectors, equal executions once; and how many were left out, by the reason.

    Raises OSError if the recording cannot be read.
    """
    models: dict[int, wire.RecordedModel] = {}
    requests: dict[int, wire.RecordedRequest] = {}
    lines: dict[tuple[object, ...], str] = {}
    left_out: Counter[str] = Counter()
    characters = 0
    for call in recording.calls:
        event = call.event
        if event.preparation.prepared_model:
            models[event.preparation.prepared_model] = event.preparation.model
        elif event.request.request:
            requests[event.request.request] = event.request
        elif event.HasField("execution"):
            about = event.execution
            request = requests.get(about.request)
            if request is None or request.prepared_model not in models:
                left_out["executions of models that are not in the recording"] += 1
                continue
            recorded = models[request.prepared_model]
            key = (
                hashlib.sha256(recorded.SerializeToString()).digest(),
                *(content.digest for content in (*about.inputs, *about.outputs)),
                *(lengths.SerializeToString() for lengths in about.lengths),
            )
            if key in lines:
                continue
            try:
                if event.status != ErrorStatus.NONE.value or not about.result.output_sufficient_size:
                    raise _UnwritableError("executions that have failed")
                _require_modest(recorded, about)
                line = _line(f"{group}_{len(lines) + 1}", group, recorded, request, about, recording)
                characters += len(line)
                if characters > _MOST_CHARACTERS:
                    raise _UnwritableError(f"executions beyond {_MOST_CHARACTERS} bytes of vectors")
                lines[key] = line
            except (_UnwritableError, DeviceRecordingError, HalError) as error:
                left_out[str(error)] += 1
    return list(lines.values()), left_out


def _require_modest(model: wire.RecordedModel, about: wire.RecordedExecution) -> None:
    contents = (*(constant.value for constant in model.constants), *about.inputs, *about.outputs)
    if sum(content.size for content in contents) > _MOST_VALUES:
        raise _UnwritableError(f"executions with more than {_MOST_VALUES} bytes of values and constants")


def _line(
    name: str,
    group: str,
    recorded: wire.RecordedModel,
    request: wire.RecordedRequest,
    about: wire.RecordedExecution,
    recording: DeviceRecording,
) -> str:
    model = restored_model(recorded, recording.content, inline=True)
    if model.referenced:
        raise _UnwritableError("executions of models with control flow")
    codes = [*(one.type for one in model.main.operations), *(one.type for one in model.main.operands)]
    if any(map(is_extension, codes)):
        raise _UnwritableError("executions of models with extensions")
    if not about.inputs or not about.outputs:
        raise _UnwritableError("executions whose values were left out")
    inputs = input_dimensions(request, about)
    told: Sequence[Dimensions] = [tuple(shape.dimensions) for shape in about.result.output_shapes]
    outputs = told or [tuple(argument.dimensions) for argument in request.arguments.outputs]
    known = with_dimensions(
        model,
        {
            **dict(zip(model.main.input_indexes, inputs, strict=True)),
            **dict(zip(model.main.output_indexes, outputs, strict=True)),
        },
    )
    vector = vector_of(
        name,
        group,
        known,
        list(_arrays(known, known.main.input_indexes, about.inputs, recording)),
        list(_arrays(known, known.main.output_indexes, about.outputs, recording)),
    )
    return vector_line(vector)


def _arrays(
    model: Model, indexes: Sequence[int], contents: Iterable[wire.RecordedContent], recording: DeviceRecording
) -> Iterable[Array]:
    for index, content in zip(indexes, contents, strict=True):
        operand = model.main.operands[index]
        if not recording.has(content):
            raise _UnwritableError("executions whose values lie in buffers, are omitted, or were left out")
        if not fully_specified(operand.type, operand.dimensions):
            raise _UnwritableError("executions with values of unknown dimensions")
        element = ELEMENT_TYPES[operand.type]
        count = int(np.prod(operand.dimensions))
        yield np.frombuffer(recording.content(content), element, count).reshape(operand.dimensions)


def input_dimensions(request: wire.RecordedRequest, about: wire.RecordedExecution) -> list[Dimensions]:
    """The dimensions of the inputs of an execution, in which 0 is unknown if its request has it, else an empty axis."""
    found = [tuple(argument.dimensions) for argument in request.arguments.inputs]
    for position, dimensions in lengths_from_wire(about.lengths):
        if position < len(found):
            found[position] = dimensions
    return found


def with_dimensions(model: Model, dimensions: Mapping[int, Dimensions]) -> Model:
    """Return a model whose inputs and outputs have given dimensions, by operands of main; empty ones change nothing."""

    def known(number: int, operand: Operand) -> Operand:
        given = dimensions.get(number, ())
        return replace(operand, dimensions=given) if given and not is_scalar(operand.type) else operand

    operands = tuple(known(number, operand) for number, operand in enumerate(model.main.operands))
    return replace(model, main=replace(model.main, operands=operands))
