"""From which operation on the values of a model differ: found as 'nnhal diff' finds it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import NnhalError
from nnhal.recording import DeviceRecording
from nnhal.remote import RemoteDevice
from nnhal.types import Model
from nnhal.types.layout import ELEMENT_TYPES, fully_specified, is_scalar
from nnhal.v1 import recording_pb2 as wire
from nnhal_frontends.imported import ImportedModel
from nnhal_tools.diff.comparison import compare
from nnhal_tools.diff.device_side import DeviceSide
from nnhal_tools.diff.limits import Limits
from nnhal_tools.diff.subject import Subject, Values
from nnhal_tools.record.known_dimensions import with_dimensions


def origin_of(
    model: Model,
    request: wire.RecordedRequest,
    execution: wire.RecordedExecution,
    recording: DeviceRecording,
    device: tuple[str, RemoteDevice],
    reference: tuple[str, Callable[[], RemoteDevice]],
) -> str:
    """Say from which operation on a device and a reference differ on the inputs of an execution.

    Device and reference have names. Raises DeadObjectError if one of them ends.
    """
    given = (tuple(argument.dimensions) for argument in request.arguments.inputs)
    model = with_dimensions(model, dict(zip(model.main.input_indexes, given, strict=True)))
    inputs = _inputs(model, execution, recording)
    if inputs is None:
        return "an unknown operation, since the inputs of the execution are not all in the recording"
    try:
        subject = Subject(_imported(model))
        ref = DeviceSide(reference[0], reference[1](), reference[1], subject)
        dut = DeviceSide(device[0], device[1], reference[1], subject)
        report = compare(subject, ref, dut, [inputs], Limits()).report("")
    except (NnhalError, ValueError) as error:
        return f"an unknown operation, since they cannot be compared with {reference[0]}: {error}"
    first = report.first
    if first is None:
        return f"no operation, by comparison with {reference[0]}: both differ from the recording"
    made = {"made": "made there", "inherited": "inherited"}.get(first.origin, "")
    return (
        f"operation {first.number} ({first.kind}), by comparison with {reference[0]}: {made}, {'; '.join(first.over)}"
    )


def _inputs(model: Model, execution: wire.RecordedExecution, recording: DeviceRecording) -> Values | None:
    found: dict[int, Array] = {}
    for index, content in zip(model.main.input_indexes, execution.inputs, strict=True):
        operand = model.main.operands[index]
        if not recording.has(content) or operand.type not in ELEMENT_TYPES:
            return None
        known = is_scalar(operand.type) or fully_specified(operand.type, operand.dimensions)
        if not known:
            return None
        element = ELEMENT_TYPES[operand.type]
        count = int(np.prod(operand.dimensions))
        found[index] = np.frombuffer(recording.content(content), element, count).reshape(operand.dimensions)
    return found


def _imported(model: Model) -> ImportedModel:
    """A model that comes from no file."""
    nodes: tuple[tuple[str, ...], ...] = tuple(() for _ in model.main.operations)
    return ImportedModel(model, (), (), nodes, (), tuple("" for _ in model.main.operands))
