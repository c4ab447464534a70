"""Trials of models that may contradict themselves: it runs as declared, is declined, or is invalid before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError, invalid_argument
from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.arena import round_up
from nnhal.operations import DEFINITIONS, UnknownYet
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import (
    NO_DEADLINE,
    Ashmem,
    DataLocation,
    ErrorStatus,
    ExecutionConfig,
    Model,
    Operand,
    OperandType,
    OperationType,
    Request,
    RequestArgument,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, byte_size, fits
from nnhal.validation import validate_request
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.hosted_device import HostedDevice, Preparation
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_tools.cases.case import Case
from nnhal_tools.cases.execution import bytes_of, given
from tests.support.mutations import subgraphs

_ALIGNMENT = 64
_ROOM = 1 << 16
"""Bytes for an output of unknown size."""
_LARGE = 4 << 20
"""A model with more bytes than this is prepared, and not executed."""
JUDGES_VALUES = frozenset(
    {
        OperationType.AXIS_ALIGNED_BBOX_TRANSFORM,
        OperationType.EMBEDDING_LOOKUP,
        OperationType.GATHER,
        OperationType.GENERATE_PROPOSALS,
        OperationType.BOX_WITH_NMS_LIMIT,
        OperationType.HEATMAP_MAX_KEYPOINT,
        OperationType.ROI_ALIGN,
        OperationType.ROI_POOLING,
    }
)
"""Operations that fail for some values of their inputs, such as indexes, or whose lengths follow from values."""


@dataclass(frozen=True, slots=True)
class Output:
    """Answer of an execution about an output. No values if it did not fit its memory."""

    dimensions: Dimensions
    values: Array | None


@dataclass(frozen=True, slots=True)
class Trial:
    """A valid model and its request on one device."""

    outputs: Sequence[Output] = ()
    """Empty unless it was executed."""
    failure: HalError | None = None
    """How the execution failed."""
    is_declined: bool = False
    """Whether the device does not support it, or it is too large to be executed, or the request is invalid."""


_DECLINED = Trial(is_declined=True)


class Nobody:
    """A session without buffers, which never ends."""

    is_over = False

    def buffer(self, token: int) -> DeviceBuffer:
        invalid_argument(f"device buffer {token} does not exist")


def attempt(device: HostedDevice, model: ValidModel, vector: Case) -> Trial:
    """Prepare and execute a valid model if the device supports it. Raises whatever support and preparation raise."""
    if not all(device.supported_operations(model)):
        return _DECLINED
    assessed = device.assess(model)
    assert len(assessed.operation_ns) == len(assessed.support), "the cost model failed"
    if _bytes(model.model) > _LARGE:
        return _DECLINED
    prepared = device.launch(model, Preparation(), Nobody())()
    arguments = _Arguments(vector)
    try:
        validate_request(model.model, arguments.request)
    except HalError:
        return _DECLINED
    try:
        return Trial(arguments.execute(prepared))
    except HalError as failure:
        return Trial(failure=failure)


def is_settled(resolved: ResolvedModel) -> bool:
    """Return whether nothing of a model's dimensions and parameters is left to be found out at execution."""
    for number, graph in enumerate(resolved.subgraphs):
        known = propagate_dimensions(resolved, number)
        for index, operation in enumerate(graph.operations):
            definition = DEFINITIONS.get(OperationType(operation.type))
            if definition is None:
                continue
            context = resolved.context(number, index, known, is_final=True)
            try:
                definition.prepare(context)
            except UnknownYet:
                return False
            if operation.type in JUDGES_VALUES or not context.executing:
                return False
    return True


def objection(model: ValidModel, trial: Trial, reference: Trial, is_extreme: bool) -> str:
    """Return what is wrong with a trial; empty if nothing is. ``reference`` is that on the reference device."""
    if trial.is_declined:
        return ""
    if trial.failure is not None:
        return _wrong_failure(model, trial.failure, reference)
    main = model.model.main
    operands = [main.operands[index] for index in main.output_indexes]
    for number, (output, operand) in enumerate(zip(trial.outputs, operands, strict=True)):
        if operand.dimensions and not fits(output.dimensions, operand.dimensions):
            return f"output {number} has dimensions {output.dimensions}, declared are {operand.dimensions}"
    if reference.failure is not None:
        return f"it runs, though the reference fails: {reference.failure}"
    for number, (output, expected) in enumerate(zip(trial.outputs, reference.outputs, strict=False)):
        if output.dimensions != expected.dimensions:
            return f"output {number} has dimensions {output.dimensions}, the reference has {expected.dimensions}"
        if not is_extreme and not _close(output.values, expected.values, operands[number]):
            return f"output {number} is {output.values}, that of the reference {expected.values}"
    return ""


def _wrong_failure(model: ValidModel, failure: HalError, reference: Trial) -> str:
    if failure.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT and model.model.referenced:
        return ""  # a loop that does not end
    if failure.status != ErrorStatus.GENERAL_FAILURE:
        return f"{failure.status.name} from an execution with valid arguments: {failure}"
    if is_settled(model.resolved):
        return f"validation could have seen what the execution says: {failure}"
    return "" if reference.failure is not None else f"it fails, though the reference runs: {failure}"


class _Arguments:
    """The inputs of a vector in pool 0, and room for its outputs in pool 1."""

    def __init__(self, vector: Case) -> None:
        main = vector.model.main
        arrays = [None if array is None else bytes_of(array) for array in vector.inputs]
        read, places = _laid_out([0 if raw is None else max(1, raw.nbytes) for raw in arrays])
        pool, inputs = open_pool(read, writable=True), []
        for raw, array, index, (offset, size) in zip(arrays, vector.inputs, main.input_indexes, places, strict=True):
            if raw is None or array is None:
                inputs.append(RequestArgument(has_no_value=True))
                continue
            pool.write(offset, raw)
            inputs.append(RequestArgument(DataLocation(0, offset, size), given(main.operands[index], array.shape)))
        self._operands = [main.operands[index] for index in main.output_indexes]
        written, self._places = _laid_out([byte_size(o.type, o.dimensions) or _ROOM for o in self._operands])
        self._results = open_pool(written, writable=False)
        outputs = [RequestArgument(DataLocation(1, *place)) for place in self._places]
        self.request = Request(tuple(inputs), tuple(outputs), (read, written))

    def execute(self, prepared: PreparedModel) -> tuple[Output, ...]:
        """Execute the request and read its outputs. Raises HalError."""
        result, _ = prepared.bind(self.request, ExecutionConfig()).run(NO_DEADLINE)
        reported = [shape.dimensions for shape in result.output_shapes] or [o.dimensions for o in self._operands]
        return tuple(Output(dimensions, self._read(number, dimensions)) for number, dimensions in enumerate(reported))

    def _read(self, number: int, dimensions: Dimensions) -> Array | None:
        element, (offset, room) = ELEMENT_TYPES[self._operands[number].type], self._places[number]
        size = prod(dimensions) * element.itemsize
        return self._results.read(offset, size).view(element) if size <= room else None


def _laid_out(sizes: Sequence[int]) -> tuple[Ashmem, Sequence[tuple[int, int]]]:
    """Memory for values of some sizes, and the offset and size of each."""
    offsets = [0, *accumulate(round_up(size, _ALIGNMENT) for size in sizes)]
    return create_ashmem(offsets[-1] or 1, "nnhal-test"), list(zip(offsets[:-1], sizes, strict=True))


def _close(got: Array | None, expected: Array | None, operand: Operand) -> bool:
    if got is None or expected is None:
        return got is expected
    tolerance = 1.0 if got.dtype.kind != "f" else 0.02 if operand.type == OperandType.TENSOR_FLOAT16 else 1e-3
    relative = tolerance if got.dtype.kind == "f" else 0.0
    return bool(np.allclose(got.astype(np.float64), expected.astype(np.float64), relative, tolerance, equal_nan=True))


def _bytes(model: Model) -> int:
    return sum(byte_size(o.type, o.dimensions) for graph in subgraphs(model) for o in graph.operands)
