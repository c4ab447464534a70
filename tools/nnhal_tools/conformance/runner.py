"""Running vectors against a device over its socket and link."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from nnhal.arrays import Array
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.fence import FenceError
from nnhal.operations import type_name
from nnhal.remote import RemoteDevice, RemoteFencedExecution, RemotePreparedModel
from nnhal.types import ErrorStatus, ExecutionResult, Model, Operand, OperationType, Request
from nnhal.types.layout import Dimensions, fully_specified
from nnhal_tools.conformance.arguments import Arguments, InBuffers, InPools
from nnhal_tools.conformance.compare import distribution_mismatch, mismatch
from nnhal_tools.conformance.memory import MemoryChoice
from nnhal_tools.conformance.vectors import Vector


class Mode(StrEnum):
    """How a test is executed."""

    SYNC = "sync"
    BURST = "burst"
    REUSABLE = "reusable"
    FENCED = "fenced"


class Verdict(StrEnum):
    """How a test ended. Declined: the device said beforehand that it does not support an operation."""

    PASSED = "passed"
    FAILED = "failed"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test: which operation and type it is about, how it ended, and why where it did not pass."""

    __test__ = False  # the name is no test's, whatever pytest thinks

    name: str
    group: str
    operation: str
    type: str
    verdict: Verdict
    reason: str = ""


class Runner:
    """Runs vectors one after the other in one session with a device."""

    def __init__(self, device: RemoteDevice, mode: Mode, memory: MemoryChoice) -> None:
        self._device = device
        self._mode = mode
        self._arguments: Arguments = InBuffers(device) if memory == MemoryChoice.TOKEN else InPools(memory)

    def run(self, vector: Vector) -> TestResult:
        """Run one vector. Raises DeadObjectError where the device is gone."""
        operation, code = subject(vector)
        verdict, reason = self._judge(vector)
        return TestResult(vector.name, vector.group, operation, code, verdict, reason)

    def _judge(self, vector: Vector) -> tuple[Verdict, str]:
        try:
            refused = self._refusals(vector)
            if refused:
                return (Verdict.PASSED, "") if vector.expect_failure else (Verdict.DECLINED, refused)
            wrong = self._execute(vector)
        except DeadObjectError:
            raise
        except HalError as error:
            return (Verdict.PASSED, "") if vector.expect_failure else (Verdict.FAILED, str(error))
        except NnhalError as error:
            return Verdict.FAILED, str(error)
        if vector.expect_failure:
            return Verdict.FAILED, "it should have been refused"
        return (Verdict.FAILED, wrong) if wrong else (Verdict.PASSED, "")

    def _refusals(self, vector: Vector) -> str:
        if all(self._device.supported_operations(vector.model)):
            return ""
        support = self._device.assess_model(vector.model).operations
        return "; ".join(f"{s.code}: got {s.got}, allowed {s.allowed}" for s in support if not s.supported)

    def _execute(self, vector: Vector) -> str:
        """What is wrong with the outputs, empty where nothing is."""
        prepared = self._device.prepare_model(vector.model)
        try:
            request = self._arguments.request(vector, prepared)
            if self._mode == Mode.FENCED and _has_open_outputs(vector.model):
                return _unless_refused(lambda: prepared.execute_fenced(request))
            return self._compare(vector, self._run(prepared, request))
        finally:
            self._arguments.release()
            prepared.release()

    def _run(self, prepared: RemotePreparedModel, request: Request) -> ExecutionResult:
        if self._mode == Mode.SYNC:
            return prepared.execute(request)
        if self._mode == Mode.BURST:
            burst = prepared.configure_execution_burst()
            try:
                return burst.execute(request, range(len(request.pools))).result
            finally:
                burst.close()
        if self._mode == Mode.FENCED:
            return _await(prepared.execute_fenced(request))
        execution = prepared.create_reusable_execution(request)
        try:
            execution.execute()
            return execution.execute()
        finally:
            execution.release()

    def _compare(self, vector: Vector, result: ExecutionResult) -> str:
        if not result.output_sufficient_size:
            return f"an output did not fit its memory: {result.output_shapes}"
        for number, expected in enumerate(vector.outputs):
            operand = vector.model.main.operands[vector.model.main.output_indexes[number]]
            reported = result.output_shapes[number].dimensions if result.output_shapes else operand.dimensions
            raw = self._arguments.output(number, reported, expected.values.nbytes)
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
    """What is wrong with a launch that must be refused."""
    try:
        launch().release()
    except HalError as error:
        return "" if error.status == ErrorStatus.INVALID_ARGUMENT else f"INVALID_ARGUMENT expected: {error}"
    return "a fenced execution with an output of open dimensions was launched"


def _await(launched: RemoteFencedExecution) -> ExecutionResult:
    """How a fenced execution ended. Raises HalError where that is an error."""
    try:
        if launched.fence is not None:
            with contextlib.suppress(FenceError):
                launched.fence.wait()
        info = launched.info()
    finally:
        launched.release()
    if info.status != ErrorStatus.NONE:
        raise HalError(info.status, info.message)
    return ExecutionResult(timing=info.timing_fenced)


def subject(vector: Vector) -> tuple[str, str]:
    """The operation and the type that a vector is about; an ADD beside others only carries values in and out."""
    operations = vector.model.main.operations
    chosen = next((o for o in operations if o.type != OperationType.ADD), operations[0])
    operands = [vector.model.main.operands[index] for index in chosen.inputs]
    tensor = next((o for o in operands if type_name(o.type).startswith("TENSOR")), operands[0])
    return OperationType(chosen.type).name, type_name(tensor.type)


def _flat(operand: Operand, reported: Dimensions, expected: Array) -> Dimensions:
    """Reported dimensions; where the vector has only flat values, dimensions of as many elements count as right."""
    if expected.ndim == 1 and operand.dimensions != expected.shape and prod(reported) == expected.size:
        return expected.shape
    return reported
