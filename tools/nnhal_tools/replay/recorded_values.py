"""The values of a recorded execution, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.codec.lengths import lengths_from_wire
from nnhal.recording import DeviceRecording
from nnhal.types import Model, Operand
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, fully_specified, is_scalar
from nnhal.v1 import recording_pb2 as wire


class UnreadableError(Exception):
    """An execution lacks what it is to be repeated with; the message says what."""


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
        return operand.with_dimensions(given) if given and not is_scalar(operand.type) else operand

    operands = tuple(known(number, operand) for number, operand in enumerate(model.main.operands))
    return replace(model, main=replace(model.main, operands=operands))
