"""Running vectors against a device over its socket and link."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import NamedTuple

from nnhal.arrays import Array, Bytes
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.operations import type_name
from nnhal.remote import RemoteDevice, RemoteFencedExecution, RemotePreparedModel
from nnhal.types import ErrorStatus, ExecutionResult, Model, Operand, OperationType, Request
from nnhal.types.layout import Dimensions, describe, fully_specified
from nnhal_tools.conformance.arguments import Arguments, InBuffers, InPools
from nnhal_tools.conformance.compare import distribution_mismatch, mismatch
from nnhal_tools.conformance.launched import awaited
from nnhal_tools.conformance.memory import MemoryChoice
from nnhal_tools.conformance.vectors import Vector
from nnhal_tools.hal_runner import deadline_in
from nnhal_tools.paint import unwritten


class ExecutionMode(StrEnum):
    """Way to execute a test."""

    SYNC = "sync"
    BURST = "burst"
    REUSABLE = "reusable"
    FENCED = "fenced"


class Verdict(StrEnum):
    """Verdict of a test. Declined: the device does not support an operation of the model."""

    PASSED = "passed"
    FAILED = "failed"
    DECLINED = "declined"


VALUES, DIMENSIONS, SIZE, ACCEPTED, LAUNCHED = "values", "dimensions", "size", "accepted", "launched"
UNREACHABLE, ENDED, UNWRITTEN = "unreachable", "ended", "unwritten"
"""How a test fails, unless it is the device's status: wrong values, wrong dimensions, an output that did not fit its
memory, a model that was to be refused, a fenced launch that was, a call without an answer, the end of the device, an
output that the device has not written.
"""


@dataclass(frozen=True, slots=True)
class TestResult:
    """Result of one test in one mode over one kind of memory."""

    __test__ = False  # pytest takes the name for that of a test class

    name: str
    """Name of the test."""
    group: str
    """The specification that the test comes from."""
    operation: str
    """The operation that the test is about."""
    type: str
    """The operand type that the test is about."""
    mode: ExecutionMode
    """How it was executed."""
    memory: MemoryChoice
    """The kind of its pools."""
    verdict: Verdict
    """How it ended."""
    reason: str = ""
    """Why the test did not pass."""
    failure: str = ""
    """How it failed, in one word: one of those above, or the name of the device's error status."""


Way = tuple[ExecutionMode, MemoryChoice]
"""A way of executing a test."""


class _Outcome(NamedTuple):
    """Outcome of a test."""

    verdict: Verdict
    reason: str = ""
    failure: str = ""


_PASSED = _Outcome(Verdict.PASSED)


def _failed(failure: str, reason: str) -> _Outcome:
    return _Outcome(Verdict.FAILED, reason, failure)


class VectorRunner:
    """Runs vectors in one session with a device: each model is prepared once and executed in several ways."""

    def __init__(
        self, device: RemoteDevice, ways: Sequence[Way], seconds: float | None = None, paints: bool = False
    ) -> None:
        """``seconds`` limits each preparation and each execution; None sets no deadline. ``paints`` runs each test
        twice, to find outputs that the device does not write.
        """
        self._device = device
        self._seconds = seconds
        self._paints = paints
        self._arguments: dict[Way, Arguments] = {
            (mode, memory): InBuffers(device) if memory == MemoryChoice.TOKEN else InPools(memory)
            for mode, memory in ways
        }

    def run(self, vector: Vector) -> list[TestResult]:
        """Run one vector in every way. Raises DeadObjectError if the device is gone."""
        return list(self.results(vector, tuple(self._arguments)))

    def results(self, vector: Vector, ways: Sequence[Way]) -> Iterator[TestResult]:
        """Run one vector in some of the ways, one after another. Raises DeadObjectError if the device is gone."""
        model = _ModelOnDevice(self._device, vector.model, self._seconds)
        try:
            for way in ways:
                yield result_of(vector, way, *self._judge(vector, model, way))
        finally:
            model.release()

    def _judge(self, vector: Vector, model: _ModelOnDevice, way: Way) -> _Outcome:
        try:
            refused = model.refusals
            if refused:
                return _PASSED if vector.expect_failure else _Outcome(Verdict.DECLINED, refused)
            outcome = self._execute(vector, model.prepared, way)
        except DeadObjectError:
            raise
        except HalError as error:
            return _PASSED if vector.expect_failure else _failed(error.status.name, str(error))
        except NnhalError as error:
            return _failed(UNREACHABLE, str(error))
        return _failed(ACCEPTED, "it should have been refused") if vector.expect_failure else outcome

    def _execute(self, vector: Vector, prepared: RemotePreparedModel, way: Way) -> _Outcome:
        """Run the test, and judge its outputs."""
        (mode, _), arguments = way, self._arguments[way]
        try:
            request = arguments.request(vector, prepared)
            if mode == ExecutionMode.FENCED and _has_open_outputs(vector.model):
                return _unless_refused(lambda: prepared.execute_fenced(request))
            result = _run(prepared, request, mode, deadline_in(self._seconds))
            if self._paints and result.output_sufficient_size:
                first = _written(vector, result, arguments)
                if arguments.paint(1):
                    result = _run(prepared, request, mode, deadline_in(self._seconds))
                    left = _left(vector, first, _written(vector, result, arguments))
                    if left:
                        return _failed(UNWRITTEN, left)
            return _compare(vector, result, arguments)
        finally:
            arguments.release()


class _ModelOnDevice:
    """The model of a vector on the device, which is asked for its support once and prepares it once."""

    def __init__(self, device: RemoteDevice, model: Model, seconds: float | None) -> None:
        self._device = device
        self._model = model
        self._seconds = seconds

    @cached_property
    def refusals(self) -> str:
        """Return why the device declines the model; empty if it does not."""
        if all(self._device.supported_operations(self._model)):
            return ""
        try:
            support = self._device.assess_model(self._model).operations
        except DeadObjectError:
            raise
        except NnhalError:  # the HAL alone has no reasons
            return "the device does not say why"
        return "; ".join(f"{s.code}: got {s.got}, allowed {s.allowed}" for s in support if not s.supported)

    @cached_property
    def prepared(self) -> RemotePreparedModel:
        return self._device.prepare_model(self._model, deadline_ns=deadline_in(self._seconds))

    def release(self) -> None:
        """Release the prepared model if it was prepared."""
        if "prepared" in self.__dict__:
            self.prepared.release()


def _run(prepared: RemotePreparedModel, request: Request, mode: ExecutionMode, deadline_ns: int) -> ExecutionResult:
    if mode == ExecutionMode.SYNC:
        return prepared.execute(request, deadline_ns=deadline_ns)
    if mode == ExecutionMode.BURST:
        burst = prepared.configure_execution_burst()
        try:
            return burst.execute(request, range(len(request.pools)), deadline_ns=deadline_ns).result
        finally:
            burst.close()
    if mode == ExecutionMode.FENCED:
        return awaited(prepared.execute_fenced(request, deadline_ns=deadline_ns))
    execution = prepared.create_reusable_execution(request)
    try:
        execution.execute(deadline_ns)
        return execution.execute(deadline_ns)
    finally:
        execution.release()


def _written(vector: Vector, result: ExecutionResult, arguments: Arguments) -> list[Bytes]:
    """The bytes of all outputs, as many as the device says that they have, and their memory holds."""
    found = []
    for number, expected in enumerate(vector.outputs):
        size = expected.values.nbytes
        if result.output_shapes:
            reported = result.output_shapes[number].dimensions
            size = min(size, expected.values.dtype.itemsize * prod(reported))
            found.append(arguments.output(number, reported, size))
        else:
            operand = vector.model.main.operands[vector.model.main.output_indexes[number]]
            found.append(arguments.output(number, operand.dimensions, size))
    return found


def _left(vector: Vector, first: Sequence[Bytes], second: Sequence[Bytes]) -> str:
    """Say what the device has not written of the outputs; empty if it has written all, or they are random."""
    if vector.multinomial_tolerance:
        return ""
    pairs = enumerate(zip(first, second, strict=True))
    left = [(number, unwritten(one, other)) for number, (one, other) in pairs if one.size == other.size]
    return "; ".join(f"output {number}: {found}" for number, found in left if found is not None)


def _compare(vector: Vector, result: ExecutionResult, arguments: Arguments) -> _Outcome:
    if not result.output_sufficient_size:
        return _failed(SIZE, _too_small(vector, result))
    for number, expected in enumerate(vector.outputs):
        operand = vector.model.main.operands[vector.model.main.output_indexes[number]]
        reported = result.output_shapes[number].dimensions if result.output_shapes else operand.dimensions
        dimensions = _flat(operand, reported, expected.values)
        raw = arguments.output(number, reported, expected.values.nbytes)
        got = raw.view(expected.values.dtype)
        if vector.multinomial_tolerance and vector.inputs[0] is not None:
            wrong = distribution_mismatch(
                vector.inputs[0], got.reshape(expected.values.shape), vector.multinomial_tolerance
            )
        else:
            wrong = mismatch(expected, got, dimensions)
        if wrong:
            has_dimensions = dimensions == expected.values.shape
            return _failed(VALUES if has_dimensions else DIMENSIONS, f"output {number}: {wrong}")
    return _PASSED


def _too_small(vector: Vector, result: ExecutionResult) -> str:
    """Say which output did not fit, and what the device says of it."""
    said = [(number, shape.dimensions) for number, shape in enumerate(result.output_shapes) if not shape.is_sufficient]
    if not said:
        return "an output did not fit its memory, and the device does not say which"
    number, dimensions = said[0]
    expected = describe(vector.outputs[number].values.shape)
    return f"output {number} did not fit its memory: dimensions {describe(dimensions)}, expected {expected}"


def _has_open_outputs(model: Model) -> bool:
    """True if the contract refuses fenced executions of a model whose requests say nothing of its outputs."""
    outputs = [model.main.operands[index] for index in model.main.output_indexes]
    return not all(fully_specified(operand.type, operand.dimensions) for operand in outputs)


def _unless_refused(launch: Callable[[], RemoteFencedExecution]) -> _Outcome:
    """Judge a launch that must be refused."""
    try:
        launch().release()
    except HalError as error:
        if error.status == ErrorStatus.INVALID_ARGUMENT:
            return _PASSED
        return _failed(error.status.name, f"INVALID_ARGUMENT expected: {error}")
    return _failed(LAUNCHED, "a fenced execution with an output of open dimensions was launched")


def result_of(vector: Vector, way: Way, verdict: Verdict, reason: str = "", failure: str = "") -> TestResult:
    """Return the result of a vector that was run in one way."""
    return TestResult(vector.name, vector.group, *subject(vector), *way, verdict, reason, failure)


def subject(vector: Vector) -> tuple[str, str]:
    """The operation and the type that a vector tests. An ADD beside other operations only carries values in and out."""
    operations = vector.model.main.operations
    chosen = next((o for o in operations if o.type != OperationType.ADD), operations[0])
    operands = [vector.model.main.operands[index] for index in chosen.inputs]
    tensor = next((o for o in operands if type_name(o.type).startswith("TENSOR")), operands[0])
    return OperationType(chosen.type).name, type_name(tensor.type)


def _flat(operand: Operand, reported: Dimensions, expected: Array) -> Dimensions:
    """Reported dimensions. If the vector has only flat values, any dimensions with as many elements are right."""
    if expected.ndim == 1 and operand.dimensions != expected.shape and prod(reported) == expected.size:
        return expected.shape
    return reported
