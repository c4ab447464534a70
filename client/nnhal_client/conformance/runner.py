"""Running vectors against a device over its socket and link."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.memory.arena import round_up
from nnhal.operations import type_name
from nnhal.remote import RemoteDevice, RemotePreparedModel
from nnhal.types import (
    DataLocation,
    ExecutionResult,
    Operand,
    OperationType,
    Request,
    RequestArgument,
)
from nnhal.types.layout import Dimensions, fully_specified, is_scalar
from nnhal_client.conformance.compare import distribution_mismatch, mismatch
from nnhal_client.conformance.memory import MemoryChoice, TestMemory
from nnhal_client.conformance.vectors import Vector

_ALIGNMENT = 64
_FILLER = 0xA5
"""What output memory holds before a test, so that an output that is not written shows."""


class Mode(StrEnum):
    """How a test is executed."""

    SYNC = "sync"
    BURST = "burst"
    REUSABLE = "reusable"


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
        self._inputs = TestMemory(memory)
        self._outputs = TestMemory(memory)

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
        support = self._device.explain_support(vector.model)
        return "; ".join(f"{s.code}: got {s.got}, allowed {s.allowed}" for s in support if not s.supported)

    def _execute(self, vector: Vector) -> str:
        """What is wrong with the outputs, empty where nothing is."""
        prepared = self._device.prepare_model(vector.model)
        try:
            request = self._request(vector)
            result = self._run(prepared, request)
            return self._compare(vector, request, result)
        finally:
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
        execution = prepared.create_reusable_execution(request)
        try:
            execution.execute()
            return execution.execute()
        finally:
            execution.release()

    def _request(self, vector: Vector) -> Request:
        """Inputs written to pool 0, outputs laid out in pool 1, each aligned."""
        main = vector.model.main
        sizes = [0 if array is None else max(1, array.nbytes) for array in vector.inputs]
        self._inputs.reserve(sum(round_up(size, _ALIGNMENT) for size in sizes) or 1)
        inputs, offset = [], 0
        for array, index, size in zip(vector.inputs, main.input_indexes, sizes, strict=True):
            if array is None:
                inputs.append(RequestArgument(has_no_value=True))
                continue
            self._inputs.pool.write(offset, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
            location = DataLocation(0, offset, size)
            inputs.append(RequestArgument(location, _given(main.operands[index], array.shape)))
            offset += round_up(size, _ALIGNMENT)
        sizes = [max(1, expected.values.nbytes) for expected in vector.outputs]
        total = sum(round_up(size, _ALIGNMENT) for size in sizes)
        self._outputs.reserve(total)
        self._outputs.pool.write(0, np.full(total, _FILLER, np.uint8))
        outputs, offset = [], 0
        for size in sizes:
            outputs.append(RequestArgument(DataLocation(1, offset, size)))
            offset += round_up(size, _ALIGNMENT)
        return Request(tuple(inputs), tuple(outputs), (self._inputs.memory, self._outputs.memory))

    def _compare(self, vector: Vector, request: Request, result: ExecutionResult) -> str:
        if not result.output_sufficient_size:
            return f"an output did not fit its memory: {result.output_shapes}"
        for number, expected in enumerate(vector.outputs):
            operand = vector.model.main.operands[vector.model.main.output_indexes[number]]
            reported = result.output_shapes[number].dimensions if result.output_shapes else operand.dimensions
            location = request.outputs[number].location
            raw = self._outputs.pool.read(location.offset, expected.values.nbytes)
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


def subject(vector: Vector) -> tuple[str, str]:
    """The operation and the type that a vector is about; an ADD beside others only carries values in and out."""
    operations = vector.model.main.operations
    chosen = next((o for o in operations if o.type != OperationType.ADD), operations[0])
    operands = [vector.model.main.operands[index] for index in chosen.inputs]
    tensor = next((o for o in operands if type_name(o.type).startswith("TENSOR")), operands[0])
    return OperationType(chosen.type).name, type_name(tensor.type)


def _given(operand: Operand, shape: Dimensions) -> Dimensions:
    """The dimensions that a request must give: none where the model says them all."""
    return () if is_scalar(operand.type) or fully_specified(operand.type, operand.dimensions) else shape


def _flat(operand: Operand, reported: Dimensions, expected: Array) -> Dimensions:
    """Reported dimensions; where the vector has only flat values, dimensions of as many elements count as right."""
    if expected.ndim == 1 and operand.dimensions != expected.shape and prod(reported) == expected.size:
        return expected.shape
    return reported
