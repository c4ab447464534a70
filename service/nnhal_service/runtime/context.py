"""One instance of a plan: an arena, and for each step a reusable execution tied to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.types import (
    NO_DEADLINE,
    DataLocation,
    ErrorStatus,
    ExecutionConfig,
    Memory,
    Request,
    RequestArgument,
)
from nnhal.types.layout import Dimensions
from nnhal_service.frontends.imported import ImportedTensor
from nnhal_service.partition import Step
from nnhal_service.runtime.bound_step import BoundStep, Steps, bind_step
from nnhal_service.runtime.chained import MAX_FENCES, Access, Chained, dependencies
from nnhal_service.runtime.in_turn import InTurn
from nnhal_service.runtime.prepared_plan import PreparedPlan
from nnhal_service.runtime.reports import RunReport


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """Where one input or output of the model lies; the location's pool index is into the caller's pools."""

    name: str
    location: DataLocation
    dimensions: Dimensions = ()


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
        self._busy = threading.Lock()
        self._closed = False
        self._bound: list[BoundStep] = []
        arguments = {
            **_arguments(prepared.imported.inputs, inputs, "input"),
            **_arguments(prepared.imported.outputs, outputs, "output"),
        }
        self._prepared = prepared
        self._memory = prepared.memory.acquire()
        requested = [*pools, *self._memory.pools.values()]
        arguments |= _own_arguments(prepared, {kind: len(pools) + n for n, kind in enumerate(self._memory.pools)})
        config = ExecutionConfig(measure_timing)
        names = {tensor.operand: tensor.name for tensor in prepared.imported.outputs}
        try:
            for step, part in zip(prepared.plan.steps, prepared.parts, strict=True):
                own = [names.get(operand, "") for operand in step.outputs]
                request = _request(step, arguments, requested)
                self._bound.append(bind_step(prepared.sides[step.device], own, part, request, config))
            self._measure = measure_timing
            self._steps = _runner(prepared, self._bound, arguments, measure_timing)
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
                self._steps.close()
                self._release()

    def _run(self, deadline_ns: int) -> RunReport:
        started = time.perf_counter_ns()
        before = self._steps.socket_bytes
        reports, outputs = self._steps.run(deadline_ns)
        after = self._steps.socket_bytes
        duration = time.perf_counter_ns() - started
        return RunReport(duration, after - before, tuple(reports) if self._measure else (), tuple(outputs))

    def _release(self) -> None:
        for step in self._bound:
            step.execution.release()
        self._prepared.memory.release(self._memory)


def _runner(
    prepared: PreparedPlan, bound: Sequence[BoundStep], arguments: Mapping[int, RequestArgument], measure: bool
) -> Steps:
    """What runs the steps: chained by fences where there are several and the contract lets them be fenced."""
    steps = prepared.plan.steps
    known = all(prepared.byte_size(operand) for step in steps for operand in step.outputs)
    if len(steps) > 1 and known:
        needs = dependencies([_accesses(step, arguments) for step in steps])
        if max(map(len, needs)) <= MAX_FENCES:
            return Chained(bound, needs, _shown(prepared), measure)
    return InTurn(bound)


def _shown(prepared: PreparedPlan) -> frozenset[int]:
    """The steps of asynchronous devices whose results somebody else is to see."""
    return frozenset(value.first for value in prepared.values.values() if value.needs_sync)


def _accesses(step: Step, arguments: Mapping[int, RequestArgument]) -> list[Access]:
    return [
        Access(location.pool_index, location.offset, location.offset + location.length, is_write)
        for operands, is_write in ((step.inputs, False), (step.outputs, True))
        for location in (arguments[operand].location for operand in operands)
    ]


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


def _own_arguments(prepared: PreparedPlan, pools: Mapping[str, int]) -> dict[int, RequestArgument]:
    """The arguments of the values between steps; ``pools`` are the indexes of the pools by kind of memory."""
    return {
        operand: RequestArgument(DataLocation(pools[place.kind], place.offset, prepared.values[operand].size))
        for operand, place in prepared.memory.layout.placements.items()
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
