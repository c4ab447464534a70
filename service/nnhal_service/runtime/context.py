"""One instance of a plan: an arena, and for each step a reusable execution tied to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError, NnhalError, TransportError, general_failure, invalid_argument
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
from nnhal_service.runtime.recovery import BoundRequest, Recovery
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
        self._prepared = prepared
        self._measure = measure_timing
        self._config = ExecutionConfig(measure_timing)
        self._bound: list[BoundStep] = []
        self._steps: Steps | None = None
        self._arguments = {
            **_arguments(prepared.imported.inputs, inputs, "input"),
            **_arguments(prepared.imported.outputs, outputs, "output"),
        }
        self._memory = prepared.memory.acquire()
        own = {kind: len(pools) + number for number, kind in enumerate(self._memory.pools)}
        self._arguments |= _own_arguments(prepared, own)
        try:
            requested = [*pools, *self._memory.pools.values()]
            names = {tensor.operand: tensor.name for tensor in prepared.imported.outputs}
            self._requests = [
                BoundRequest(
                    step.device,
                    _request(step, self._arguments, requested),
                    [names.get(operand, "") for operand in step.outputs],
                )
                for step in prepared.plan.steps
            ]
            self._recovery = Recovery(prepared.parts, self._requests, self._config, prepared.plan.fallback)
            try:
                self._bind()
            except TransportError:
                if not prepared.parts.may_fall_back:
                    raise
        except BaseException:
            prepared.memory.release(self._memory)
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
                self._unbind()
                self._recovery.close()
                self._prepared.memory.release(self._memory)

    def _run(self, deadline_ns: int) -> RunReport:
        started = time.perf_counter_ns()
        before = self._steps.socket_bytes if self._steps is not None else 0
        try:
            reports, outputs = self._bind().run(deadline_ns)
        except NnhalError as error:
            if any(part.member.remote.gone for part in self._prepared.parts):
                self._unbind()  # what came back is bound anew at the next run
            if not self._recovery.may_recover(error):
                raise
            reports, outputs = self._recovery.run(deadline_ns, error)
        after = self._steps.socket_bytes if self._steps is not None else before
        duration = time.perf_counter_ns() - started
        return RunReport(duration, after - before, tuple(reports) if self._measure else (), tuple(outputs))

    def _bind(self) -> Steps:
        """What runs the steps on their own devices, bound anew where one came back. Raises as binding does."""
        if self._steps is None:
            try:
                for number, step in enumerate(self._requests):
                    part = self._prepared.parts.living(number)
                    side = self._prepared.sides[step.device]
                    self._bound.append(bind_step(side, step.outputs, part, step.request, self._config))
                self._steps = _runner(self._prepared, self._bound, self._arguments, self._measure)
            except BaseException:
                self._unbind()
                raise
        return self._steps

    def _unbind(self) -> None:
        if self._steps is not None:
            self._steps.close()
            self._steps = None
        for step in self._bound:
            step.execution.release()
        self._bound.clear()


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
