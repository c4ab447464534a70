"""One instance of a plan: an arena, and for each step a reusable execution and a burst to run it on."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteBurst, RemoteExecution
from nnhal.types import (
    NO_DEADLINE,
    DataLocation,
    ErrorStatus,
    ExecutionConfig,
    ExecutionResult,
    Memory,
    Request,
    RequestArgument,
)
from nnhal.types.layout import Dimensions
from nnhal_service.frontends.imported import ImportedTensor
from nnhal_service.partition import Step
from nnhal_service.runtime.prepared_plan import Part, PreparedPlan


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """Where one input or output of the model lies; the location's pool index is into the caller's pools."""

    name: str
    location: DataLocation
    dimensions: Dimensions = ()


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step of a run took, nanoseconds and bytes. Times that were not measured are -1."""

    device: str
    duration_ns: int
    time_on_device_ns: int
    time_in_driver_ns: int
    copied_bytes: int
    copy_duration_ns: int


@dataclass(frozen=True, slots=True)
class OutputReport:
    """What a device has said of an output: its dimensions, and whether it fitted its memory."""

    name: str
    dimensions: Dimensions
    sufficient: bool


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run took.

    ``socket_bytes`` went to devices and back; ``steps`` is empty unless the context measures. ``outputs`` are those of
    which a device has said anything.
    """

    duration_ns: int
    socket_bytes: int
    steps: tuple[StepReport, ...] = ()
    outputs: tuple[OutputReport, ...] = ()


class OutputTooSmallError(HalError):
    """OUTPUT_INSUFFICIENT_SIZE, with what the outputs need."""

    def __init__(self, device: str, outputs: Sequence[OutputReport]) -> None:
        message = f"an output of the step on {device} does not fit its memory"
        super().__init__(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, message)
        self.outputs = tuple(outputs)


class _BoundStep:
    """A step with its execution and the burst that it runs on."""

    def __init__(
        self, device: str, outputs: Sequence[str], part: Part, request: Request, config: ExecutionConfig
    ) -> None:
        """``outputs`` has the names of those outputs of the step that are the model's, empty for the others."""
        self.device = device
        self._outputs = outputs
        self.execution: RemoteExecution = part.prepared.create_reusable_execution(request, config)
        try:
            self.burst: RemoteBurst = part.prepared.configure_execution_burst()
        except BaseException:
            self.execution.release()
            raise

    def reports(self, result: ExecutionResult) -> list[OutputReport]:
        """What an execution has said of the model's outputs."""
        return [
            OutputReport(name, shape.dimensions, shape.is_sufficient)
            for name, shape in zip(self._outputs, result.output_shapes, strict=False)
            if name
        ]

    def close(self) -> None:
        self.burst.close()
        self.execution.release()


class ExecutionContext:
    """A prepared plan tied to memory. Runs once at a time."""

    def __init__(
        self,
        prepared: PreparedPlan,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure_timing: bool,
    ) -> None:
        """Raises HalError where the bindings are not valid or a device refuses, TransportError where one is gone."""
        self._measure = measure_timing
        self._busy = threading.Lock()
        self._closed = False
        self._steps: list[_BoundStep] = []
        arguments = {
            **_arguments(prepared.imported.inputs, inputs, "input"),
            **_arguments(prepared.imported.outputs, outputs, "output"),
        }
        requested = list(pools)
        if prepared.arena.size:
            arena = create_ashmem(prepared.arena.size, "nnhal-arena")
            arguments |= _arena_arguments(prepared, len(requested))
            requested.append(arena)
        config = ExecutionConfig(measure_timing)
        names = {tensor.operand: tensor.name for tensor in prepared.imported.outputs}
        try:
            for step, part in zip(prepared.plan.steps, prepared.parts, strict=True):
                own = [names.get(operand, "") for operand in step.outputs]
                request = _request(step, arguments, requested)
                self._steps.append(_BoundStep(step.device, own, part, request, config))
        except BaseException:
            self._release()
            raise

    def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """Run all steps. Raises HalError, or TransportError where a device is gone."""
        if not self._busy.acquire(blocking=False):
            general_failure("the binding runs already; one run at a time is allowed")
        try:
            if self._closed:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
            return self._run(deadline_ns)
        finally:
            self._busy.release()

    def close(self) -> None:
        """Release it, when a run in flight has ended; harmless when repeated."""
        with self._busy:
            if not self._closed:
                self._closed = True
                self._release()

    def _run(self, deadline_ns: int) -> RunReport:
        started = time.perf_counter_ns()
        before = sum(step.burst.socket_bytes for step in self._steps)
        outputs: list[OutputReport] = []
        reports = [self._run_step(step, deadline_ns, outputs) for step in self._steps]
        after = sum(step.burst.socket_bytes for step in self._steps)
        duration = time.perf_counter_ns() - started
        return RunReport(duration, after - before, tuple(reports) if self._measure else (), tuple(outputs))

    def _run_step(self, step: _BoundStep, deadline_ns: int, outputs: list[OutputReport]) -> StepReport:
        started = time.perf_counter_ns()
        outcome = step.burst.run(step.execution, deadline_ns)
        ended = time.perf_counter_ns()
        if outcome.result.output_shapes:
            outputs += step.reports(outcome.result)
        if not outcome.result.output_sufficient_size:
            raise OutputTooSmallError(step.device, outputs)
        timing = outcome.result.timing
        return StepReport(
            step.device,
            ended - started,
            timing.time_on_device_ns,
            timing.time_in_driver_ns,
            outcome.staged_bytes,
            outcome.staging_ns,
        )

    def _release(self) -> None:
        for step in self._steps:
            step.close()


def _arguments(
    tensors: Sequence[ImportedTensor], bindings: Sequence[TensorBinding], what: str
) -> dict[int, RequestArgument]:
    """The request arguments of the model's own inputs or outputs, by operand."""
    given = {binding.name: binding for binding in bindings}
    wanted = {tensor.name: tensor for tensor in tensors}
    if given.keys() != wanted.keys() or len(given) != len(bindings):
        invalid_argument(f"got {what}s {sorted(b.name for b in bindings)}, expected each of {sorted(wanted)} once")
    return {
        tensor.operand: RequestArgument(given[name].location, given[name].dimensions) for name, tensor in wanted.items()
    }


def _arena_arguments(prepared: PreparedPlan, pool: int) -> dict[int, RequestArgument]:
    return {
        operand: RequestArgument(DataLocation(pool, offset, prepared.byte_size(operand)))
        for operand, offset in prepared.arena.offsets.items()
    }


def _request(step: Step, arguments: dict[int, RequestArgument], pools: Sequence[Memory]) -> Request:
    """The request of one step, with the pools that it uses and no others."""
    used = sorted({arguments[operand].location.pool_index for operand in (*step.inputs, *step.outputs)})
    for index in used:
        if not 0 <= index < len(pools):
            invalid_argument(f"a binding lies in pool {index} of {len(pools)}")
    numbers = {old: new for new, old in enumerate(used)}

    def renumbered(operand: int) -> RequestArgument:
        argument = arguments[operand]
        location = argument.location
        return RequestArgument(
            DataLocation(numbers[location.pool_index], location.offset, location.length, location.padding),
            argument.dimensions,
        )

    return Request(
        tuple(renumbered(operand) for operand in step.inputs),
        tuple(renumbered(operand) for operand in step.outputs),
        tuple(pools[index] for index in used),
    )
