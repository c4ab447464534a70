"""Running cases on a device over its socket and link, one after the other or on several processes at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from math import prod

from nnhal.arrays import Array, Bytes
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.remote import RemoteDevice, RemoteFencedExecution, RemotePreparedModel
from nnhal.types import ErrorStatus, ExecutionResult, Model, Operand
from nnhal.types.layout import Dimensions, describe, fully_specified
from nnhal_tools.cases.asked_device import AskedDevice, EndedError
from nnhal_tools.cases.case import (
    ACCEPTED,
    DIMENSIONS,
    ENDED,
    LAUNCHED,
    SIZE,
    SYNC_OVER_ASHMEM,
    UNREACHABLE,
    UNWRITTEN,
    VALUES,
    Case,
    CaseOutcome,
    ExecutionMode,
    MemoryChoice,
    Verdict,
    Way,
)
from nnhal_tools.cases.execution import InBuffers, InPools, deadline_in, execute
from nnhal_tools.cases.report import CaseReport
from nnhal_tools.distance.elements import distribution_mismatch, mismatch
from nnhal_tools.paint import unwritten

Told = tuple[Verdict, str, str]
"""A verdict, why, and how it failed in one word."""
_PASSED: Told = (Verdict.PASSED, "", "")


def _failed(failure: str, reason: str) -> Told:
    return Verdict.FAILED, reason, failure


class CaseRunner:
    """Runs cases in one session with a device, and in another one after the device has died of a case."""

    def __init__(
        self,
        device: AskedDevice | RemoteDevice,
        ways: Sequence[Way] = (SYNC_OVER_ASHMEM,),
        paints: bool = False,
        kept_models: int = 1,
    ) -> None:
        """``ways`` are those of cases that have none of their own. ``paints`` runs each case twice, to find outputs
        that the device does not write. ``kept_models`` prepared models wait for further cases of theirs.
        """
        self._device = AskedDevice("the device", device) if isinstance(device, RemoteDevice) else device
        self._ways, self._paints, self._kept_models = tuple(ways), paints, kept_models
        self._arguments: dict[Way, InPools] = {}
        self._models: dict[int, _ModelOnDevice] = {}

    def run(self, case: Case) -> list[CaseOutcome]:
        """Run a case in every way, one after another. A device that dies of one is started again for the next.

        Raises DeadObjectError if the device is gone and cannot be started again.
        """
        return [self._outcome(case, way) for way in ([case.way] if case.way else self._ways)]

    def _outcome(self, case: Case, way: Way) -> CaseOutcome:
        try:
            told = self._device.surviving(lambda: self._judge(case, way), case.name)
        except EndedError as error:
            self._arguments.clear()
            self._models.clear()
            told = _failed(ENDED, error.message)
        return case.outcome(way, *told)

    def _judge(self, case: Case, way: Way) -> Told:
        model = self._model(case)
        try:
            if model.refusals:
                return _PASSED if case.expect_failure else (Verdict.DECLINED, model.refusals, "")
            prepared = model.prepared
            told = _PASSED if case.is_prepared_only else self._execute(case, prepared, way)
        except DeadObjectError:
            raise
        except HalError as error:
            if case.expect_failure or error.status == case.status:
                return _PASSED
            expected = f"; expected {case.status.name}" if case.status else ""
            return _failed(error.status.name, f"{error}{expected}")
        except NnhalError as error:
            return _failed(UNREACHABLE, str(error))
        if case.status:
            return _failed(ACCEPTED, f"it succeeds, expected {case.status.name}")
        return _failed(ACCEPTED, "it should have been refused") if case.expect_failure else told

    def _model(self, case: Case) -> _ModelOnDevice:
        """Return the case's model on the device, which is the one that was used last from now on."""
        found = self._models.pop(id(case.model), None)
        while found is None and len(self._models) >= self._kept_models:
            self._models.pop(next(iter(self._models))).release()
        found = found or _ModelOnDevice(self._device.remote, case, self._device.seconds)
        self._models[id(case.model)] = found
        return found

    def _execute(self, case: Case, prepared: RemotePreparedModel, way: Way) -> Told:
        """Run the case, and judge its outputs."""
        if case.lengths and not prepared.calls.has_lengths_by_run:
            return Verdict.DECLINED, "the device does not take lengths of inputs with a run", ""
        mode, memory = way
        if way not in self._arguments:
            is_token = memory == MemoryChoice.TOKEN
            self._arguments[way] = InBuffers(self._device.remote) if is_token else InPools(memory)
        arguments, seconds = self._arguments[way], self._device.seconds if case.seconds is None else case.seconds
        sizes = [expected.values.nbytes for expected in case.outputs]
        try:
            request = arguments.request(case.model, prepared, case.inputs, sizes)
            if mode == ExecutionMode.FENCED and _has_open_outputs(case.model):
                return _unless_refused(lambda: prepared.execute_fenced(request))
            result = execute(prepared, request, mode, deadline_in(seconds), case.lengths)
            if self._paints and result.output_sufficient_size:
                first = _written(case, result, arguments)
                if arguments.paint(1):
                    result = execute(prepared, request, mode, deadline_in(seconds))
                    left = _left(case, first, _written(case, result, arguments))
                    if left:
                        return _failed(UNWRITTEN, left)
            if case.taken is not None and result.output_sufficient_size:
                case.taken(_written(case, result, arguments))
            return _compare(case, result, arguments)
        finally:
            arguments.release()


class _ModelOnDevice:
    """The model of a case on the device, which is asked for its support once and prepares it once."""

    def __init__(self, device: RemoteDevice, case: Case, seconds: float | None) -> None:
        self._device, self._seconds = device, seconds
        self._model, self._preparing = case.model, case.preparing

    @cached_property
    def refusals(self) -> str:
        """Return why the device declines the model; empty if it does not."""
        if all(self._device.supported_operations(self._model)):
            return ""
        return "; ".join(refusals(self._device, self._model).values()) or "the device does not say why"

    @cached_property
    def prepared(self) -> RemotePreparedModel:
        return self._device.prepare_model(self._model, **{"deadline_ns": deadline_in(self._seconds), **self._preparing})

    def release(self) -> None:
        """Release the prepared model if it was prepared."""
        if "prepared" in self.__dict__:
            self.prepared.release()


def refusals(device: RemoteDevice, model: Model) -> dict[int, str]:
    """Return why a device declines operations of a model, in words, by number; none if it has the HAL alone, which has
    no reasons. Raises DeadObjectError.
    """
    try:
        support = device.assess_model(model).operations
    except DeadObjectError:
        raise
    except NnhalError:
        return {}
    words = enumerate(f"{s.code}: got {s.got}, allowed {s.allowed}" for s in support)
    return {number: reason for number, reason in words if not support[number].supported}


def run_all(
    cases: Iterable[Case | CaseOutcome],
    runners: Sequence[CaseRunner],
    report: CaseReport,
    done: Callable[[], object] = lambda: None,
) -> None:
    """Run cases on several devices at a time, and put their outcomes in a report, in the order of the cases.

    ``done`` is called as each case ends; what is an outcome already is kept in its place. Raises the error of a device
    that cannot be started again: then the report has what is known by then.
    """
    waiting, lock, is_over = enumerate(cases), threading.Lock(), threading.Event()

    def work(runner: CaseRunner) -> None:
        while not is_over.is_set():
            with lock:
                number, case = next(waiting, (-1, None))
            if case is None:
                return
            try:
                if isinstance(case, CaseOutcome):
                    report.found[number] = [case]
                else:
                    report.add(number, case, runner.run(case))
            except BaseException:
                is_over.set()
                raise
            with lock:
                done()

    with ThreadPoolExecutor(len(runners)) as pool:
        for ended in [pool.submit(work, runner) for runner in runners]:
            ended.result()


def _written(case: Case, result: ExecutionResult, arguments: InPools) -> list[Bytes]:
    """The bytes of all outputs, as many as the device says that they have, and their memory holds."""
    found = []
    for number, (expected, operand) in enumerate(zip(case.outputs, _outputs_of(case), strict=True)):
        size, reported = expected.values.nbytes, _reported(result, number, operand)
        if result.output_shapes:
            size = min(size, expected.values.dtype.itemsize * prod(reported))
        found.append(arguments.output(number, reported, size))
    return found


def _left(case: Case, first: Sequence[Bytes], second: Sequence[Bytes]) -> str:
    """Say what the device has not written of the outputs; empty if it has written all, or they are random."""
    if case.multinomial_tolerance:
        return ""
    pairs = enumerate(zip(first, second, strict=True))
    left = [(number, unwritten(one, other)) for number, (one, other) in pairs if one.size == other.size]
    return "; ".join(f"output {number}: {found}" for number, found in left if found is not None)


def _compare(case: Case, result: ExecutionResult, arguments: InPools) -> Told:
    if not result.output_sufficient_size:
        return _failed(SIZE, _too_small(case, result))
    for number, (expected, operand) in enumerate(zip(case.outputs, _outputs_of(case), strict=True)):
        reported = _reported(result, number, operand)
        dimensions = _flat(operand, reported, expected.values)
        if dimensions != expected.values.shape:
            wrong = f"dimensions {describe(dimensions)}, expected {describe(expected.values.shape)}"
            return _failed(DIMENSIONS, f"output {number}: {wrong}")
        if not expected.compared:
            continue
        got = arguments.output(number, reported, expected.values.nbytes).view(expected.values.dtype)
        if case.multinomial_tolerance and case.inputs[0] is not None:
            wrong = distribution_mismatch(case.inputs[0], got.reshape(dimensions), case.multinomial_tolerance)
        else:
            wrong = mismatch(expected.values, got, expected.absolute, expected.relative)
        if wrong:
            return _failed(VALUES, f"output {number}: {wrong}")
    return _PASSED


def _too_small(case: Case, result: ExecutionResult) -> str:
    """Say which output did not fit, and what the device says of it."""
    said = [(number, shape.dimensions) for number, shape in enumerate(result.output_shapes) if not shape.is_sufficient]
    if not said:
        return "an output did not fit its memory, and the device does not say which"
    number, dimensions = said[0]
    expected = describe(case.outputs[number].values.shape)
    return f"output {number} did not fit its memory: dimensions {describe(dimensions)}, expected {expected}"


def _outputs_of(case: Case) -> list[Operand]:
    return [case.model.main.operands[index] for index in case.model.main.output_indexes]


def _reported(result: ExecutionResult, number: int, operand: Operand) -> Dimensions:
    return result.output_shapes[number].dimensions if result.output_shapes else operand.dimensions


def _flat(operand: Operand, reported: Dimensions, expected: Array) -> Dimensions:
    """Reported dimensions. If the case has only flat values, any dimensions with as many elements are right."""
    if expected.ndim == 1 and operand.dimensions != expected.shape and prod(reported) == expected.size:
        return expected.shape
    return reported


def _has_open_outputs(model: Model) -> bool:
    """True if the contract refuses fenced executions of a model whose requests say nothing of its outputs."""
    outputs = [model.main.operands[index] for index in model.main.output_indexes]
    return not all(fully_specified(operand.type, operand.dimensions) for operand in outputs)


def _unless_refused(launch: Callable[[], RemoteFencedExecution]) -> Told:
    """Judge a launch that must be refused."""
    try:
        launch().release()
    except HalError as error:
        if error.status == ErrorStatus.INVALID_ARGUMENT:
            return _PASSED
        return _failed(error.status.name, f"INVALID_ARGUMENT expected: {error}")
    return _failed(LAUNCHED, "a fenced execution with an output of open dimensions was launched")
