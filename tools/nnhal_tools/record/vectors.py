"""Conformance vectors out of a recording: each execution with its values is a test of what the device has answered."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
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


class UnreadableError(Exception):
    """An execution lacks what it is to be repeated with; the message says what."""


def vectors_of(recording: DeviceRecording, group: str) -> tuple[list[str], Counter[str]]:
    """Return tests as lines of a file of vectors, equal executions once; and how many were left out, by the reason.

    Raises OSError if the recording cannot be read.
    """
    lines: dict[tuple[object, ...], str] = {}
    left_out: Counter[str] = Counter()
    characters = 0
    for call in recording.calls:
        event, about = call.event, call.event.execution
        if not event.HasField("execution"):
            continue
        request = recording.requests.get(about.request)
        recorded = None if request is None else recording.models.get(request.prepared_model)
        if request is None or recorded is None:
            left_out["executions of models that are not in the recording"] += 1
            continue
        key = (
            hashlib.sha256(recorded.SerializeToString()).digest(),
            *(content.digest for content in (*about.inputs, *about.outputs)),
            *(lengths.SerializeToString() for lengths in about.lengths),
        )
        if key in lines:
            continue
        try:
            if event.status != ErrorStatus.NONE.value or not about.result.output_sufficient_size:
                raise UnreadableError("executions that have failed")
            _require_modest(recorded, about)
            line = _line(f"{group}_{len(lines) + 1}", group, recorded, request, about, recording)
            characters += len(line)
            if characters > _MOST_CHARACTERS:
                raise UnreadableError(f"executions beyond {_MOST_CHARACTERS} bytes of vectors")
            lines[key] = line
        except (UnreadableError, DeviceRecordingError, HalError) as error:
            left_out[str(error)] += 1
    return list(lines.values()), left_out


def _require_modest(model: wire.RecordedModel, about: wire.RecordedExecution) -> None:
    contents = (*(constant.value for constant in model.constants), *about.inputs, *about.outputs)
    if sum(content.size for content in contents) > _MOST_VALUES:
        raise UnreadableError(f"executions with more than {_MOST_VALUES} bytes of values and constants")


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
        raise UnreadableError("executions of models with control flow")
    codes = [*(one.type for one in model.main.operations), *(one.type for one in model.main.operands)]
    if any(map(is_extension, codes)):
        raise UnreadableError("executions of models with extensions")
    told: Sequence[Dimensions] = [tuple(shape.dimensions) for shape in about.result.output_shapes]
    outputs = told or [tuple(argument.dimensions) for argument in request.arguments.outputs]
    known = _with_dimensions(
        with_inputs_of(model, about, recording), dict(zip(model.main.output_indexes, outputs, strict=True))
    )
    inputs, expected = (
        arrays_of(known, indexes, contents, recording)
        for indexes, contents in (
            (known.main.input_indexes, about.inputs),
            (known.main.output_indexes, about.outputs),
        )
    )
    return vector_line(vector_of(name, group, known, inputs, expected))


def arrays_of(
    model: Model, indexes: Sequence[int], contents: Sequence[wire.RecordedContent], recording: DeviceRecording
) -> list[Array]:
    """Return recorded values of operands of main. Raises UnreadableError if one is not an array that is known."""
    if len(contents) != len(indexes):
        raise UnreadableError("executions whose values were left out")
    found: list[Array] = []
    for index, content in zip(indexes, contents, strict=True):
        operand = model.main.operands[index]
        if not recording.has(content):
            raise UnreadableError("executions whose values lie in buffers, are omitted, or were left out")
        element = ELEMENT_TYPES.get(operand.type)
        if element is None or not fully_specified(operand.type, operand.dimensions):
            raise UnreadableError("executions with values of unknown dimensions")
        count = int(np.prod(operand.dimensions))
        found.append(np.frombuffer(recording.content(content), element, count).reshape(operand.dimensions))
    return found


def with_inputs_of(model: Model, about: wire.RecordedExecution, recording: DeviceRecording) -> Model:
    """Return a model with the dimensions that its inputs have in an execution."""
    found = [tuple(argument.dimensions) for argument in recording.requests[about.request].arguments.inputs]
    for position, dimensions in lengths_from_wire(about.lengths):
        if position < len(found):
            found[position] = dimensions
    return _with_dimensions(model, dict(zip(model.main.input_indexes, found, strict=True)))


def _with_dimensions(model: Model, dimensions: Mapping[int, Dimensions]) -> Model:
    """Return a model whose inputs and outputs have given dimensions, by operands of main; empty ones change nothing."""

    def known(number: int, operand: Operand) -> Operand:
        given = dimensions.get(number, ())
        return replace(operand, dimensions=given) if given and not is_scalar(operand.type) else operand

    operands = tuple(known(number, operand) for number, operand in enumerate(model.main.operands))
    return replace(model, main=replace(model.main, operands=operands))
