"""Running vectors against a device over its socket and link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import prod

from nnhal.arrays import Array
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.operations import type_name
from nnhal.remote import RemoteDevice, RemoteFencedExecution, RemotePreparedModel
from nnhal.types import ErrorStatus, ExecutionResult, Model, Operand, OperationType, Request
from nnhal.types.layout import Dimensions, fully_specified
from nnhal_tools.conformance.arguments import Arguments, InBuffers, InPools
from nnhal_tools.conformance.compare import distribution_mismatch, mismatch
from nnhal_tools.conformance.launched import awaited
from nnhal_tools.conformance.memory import MemoryChoice
from nnhal_tools.conformance.vectors import Vector


class ExecutionMode(StrEnum):
    """How a test is executed."""

    SYNC = "sync"
    BURST = "burst"
    REUSABLE = "reusable"
    FENCED = "fenced"


class Verdict(StrEnum):
    """How a test ended. Declined: the device does not support an operation of the model."""

    PASSED = "passed"
    FAILED = "failed"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class TestResult:
    """How one test ended in one mode over one kind of memory."""

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


Way = tuple[ExecutionMode, MemoryChoice]
"""A way of executing a test."""


class VectorRunner:
    """Runs vectors in one session with a device: each model is prepared once and executed in several ways."""

    def __init__(self, device: RemoteDevice, ways: Sequence[Way]) -> None:
        self._device = device
        self._arguments: dict[Way, Arguments] = {
            (mode, memory): InBuffers(device) if memory == MemoryChoice.TOKEN else InPools(memory)
            for mode, memory in ways
        }

    def run(self, vector: Vector) -> list[TestResult]:
        """Run one vector in every way. Raises DeadObjectError if the device is gone."""
        operation, code = subject(vector)
        model = _ModelOnDevice(self._device, vector.model)
        try:
            return [
                TestResult(vector.name, vector.group, operation, code, *way, *self._judge(vector, model, way))
                for way in self._arguments
            ]
        finally:
            model.release()

    def _judge(self, vector: Vector, model: _ModelOnDevice, way: Way) -> tuple[Verdict, str]:
        try:
            refused = model.refusals
            if refused:
                return (Verdict.PASSED, "") if vector.expect_failure else (Verdict.DECLINED, refused)
            wrong = self._execute(vector, model.prepared, way)
        except DeadObjectError:
            raise
        except HalError as error:
            return (Verdict.PASSED, "") if vector.expect_failure else (Verdict.FAILED, str(error))
        except NnhalError as error:
            return Verdict.FAILED, str(error)
        if vector.expect_failure:
            return Verdict.FAILED, "it should have been refused"
        return (Verdict.FAILED, wrong) if wrong else (Verdict.PASSED, "")

    def _execute(self, vector: Vector, prepared: RemotePreparedModel, way: Way) -> str:
        """What is wrong with the outputs; empty if nothing is."""
        (mode, _), arguments = way, self._arguments[way]
        try:
            request = arguments.request(vector, prepared)
            if mode == ExecutionMode.FENCED and _has_open_outputs(vector.model):
                return _unless_refused(lambda: prepared.execute_fenced(request))
            return _compare(vector, _run(prepared, request, mode), arguments)
        finally:
            arguments.release()


class _ModelOnDevice:
    """The model of a vector on the device, which is asked for its support once and prepares it once."""

    def __init__(self, device: RemoteDevice, model: Model) -> None:
        self._device = device
        self._model = model

    @cached_property
    def refusals(self) -> str:
        """Why the device declines the model; empty if it does not."""
        if all(self._device.supported_operations(self._model)):
            return ""
        support = self._device.assess_model(self._model).operations
        return "; ".join(f"{s.code}: got {s.got}, allowed {s.allowed}" for s in support if not s.supported)

    @cached_property
    def prepared(self) -> RemotePreparedModel:
        """The prepared model."""
        return self._device.prepare_model(self._model)

    def release(self) -> None:
        """Release the prepared model if it was prepared."""
        if "prepared" in self.__dict__:
            self.prepared.release()


def _run(prepared: RemotePreparedModel, request: Request, mode: ExecutionMode) -> ExecutionResult:
    if mode == ExecutionMode.SYNC:
        return prepared.execute(request)
    if mode == ExecutionMode.BURST:
        burst = prepared.configure_execution_burst()
        try:
            return burst.execute(request, range(len(request.pools))).result
        finally:
            burst.close()
    if mode == ExecutionMode.FENCED:
        return awaited(prepared.execute_fenced(request))
    execution = prepared.create_reusable_execution(request)
    try:
        execution.execute()
        return execution.execute()
    finally:
        execution.release()


def _compare(vector: Vector, result: ExecutionResult, arguments: Arguments) -> str:
    if not result.output_sufficient_size:
        return f"an output did not fit its memory: {result.output_shapes}"
    for number, expected in enumerate(vector.outputs):
        operand = vector.model.main.operands[vector.model.main.output_indexes[number]]
        reported = result.output_shapes[number].dimensions if result.output_shapes else operand.dimensions
        raw = arguments.output(number, reported, expected.values.nbytes)
        got = raw.view(expected.values.dtype)
        if vector.multinomial_tolerance and vector.inputs[0] is not None:
            wrong = distribution_mismatch(
                vector.inputs[0], got.reshape(expected.values.shape), vector.multinomial_tolerance
            )
        else:
            wrong = mismatch(expected, got, _flat(operand, reported, expected.values))
        if wrong:
            return f"output {number}: {wrong}"
    return ""


def _has_open_outputs(model: Model) -> bool:
    """Whether the contract refuses fenced executions of a model whose requests say nothing of its outputs."""
    outputs = [model.main.operands[index] for index in model.main.output_indexes]
    return not all(fully_specified(operand.type, operand.dimensions) for operand in outputs)


def _unless_refused(launch: Callable[[], RemoteFencedExecution]) -> str:
    """What is wrong with a launch that must be refused; empty if nothing is."""
    try:
        launch().release()
    except HalError as error:
        return "" if error.status == ErrorStatus.INVALID_ARGUMENT else f"INVALID_ARGUMENT expected: {error}"
    return "a fenced execution with an output of open dimensions was launched"


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
