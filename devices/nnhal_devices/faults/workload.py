"""Workloads whose executions meet faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import cache, partial

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.errors import general_failure
from nnhal.resolved import ResolvedModel
from nnhal.types import Copy, ExecutionResult
from nnhal.types.layout import Dimensions
from nnhal_devices.driver import (
    Argument,
    AsynchronousWorkload,
    BoundWorkload,
    CompiledWorkload,
    Control,
    Driver,
    MeasuredWorkload,
    Outcome,
    Pending,
    ShownWorkload,
    ShrinkableDriver,
    TimedWorkload,
    Workload,
)
from nnhal_devices.faults.fault_set import LATER, RAN, ActiveFault, CountedFault, Point, layers_of_fault
from nnhal_devices.faults.injection import DeviceFaults, fault_words
from nnhal_devices.faults.layer_faults import LayerFaults, about_layers, with_outputs
from nnhal_devices.faults.model_facts import ModelFacts, layers_of
from nnhal_devices.faults.outcomes import DoneExecution, altered_outcome, altered_result
from nnhal_devices.figures import OperationTimes
from nnhal_hosting.faults import AnswerFault, DelayFault, Fault, LayerCondition, ShrunkSramFault, ValuesFault


class FaultyWorkload:
    """A workload whose runs meet faults."""

    def __init__(
        self,
        workload: Workload,
        model: ResolvedModel,
        facts: ModelFacts,
        faults: DeviceFaults,
        lacks_constants: bool = False,
    ) -> None:
        """``lacks_constants`` says that some of the model's are zeros, as the workload does not read them."""
        self._workload = workload
        self.faults = faults
        self.model = model
        self.lacks_constants = lacks_constants
        self.facts = facts._replace(
            working_bytes=workload.working_bytes if isinstance(workload, MeasuredWorkload) else 0,
            layers=cache(lambda: tuple(layers_of(model))),
        )
        self.takes_empty = getattr(workload, "takes_empty", False)
        # The host asks for these by their presence.
        if isinstance(workload, CompiledWorkload):
            self.artifact = workload.artifact
        if isinstance(workload, ShownWorkload):
            self.figures = workload.figures
        if isinstance(workload, TimedWorkload):
            # A method of its own would be a reference cycle, which keeps constants until the next garbage collection.
            self.operation_times = partial(_slowed_times, workload, faults, self.facts)

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        """Bind it to memory. Raises HalError."""
        self.faults.inject(Point.BIND, self.facts)
        bound = self._workload.bind(inputs, outputs)
        if isinstance(bound, AsynchronousWorkload):
            return _FaultyAsynchronous(bound, self, inputs, outputs)
        return _FaultyBound(bound, self, inputs, outputs)

    def altered(self, result: ExecutionResult, known: Sequence[Dimensions]) -> tuple[ExecutionResult, Sequence[Copy]]:
        """Return the result that is reported in place of one, and notes of the faults.

        ``known`` are the dimensions of the bound outputs.
        """
        met = self.faults.set.met(Point.RESULT, self.facts)
        return (altered_result(result, known, met, self.facts), noted(met, now_ns())) if met else (result, ())


class _FaultyBound:
    """A bound workload whose runs meet faults."""

    def __init__(
        self,
        bound: BoundWorkload,
        workload: FaultyWorkload,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument],
    ) -> None:
        self._bound = bound
        self._workload = workload
        self._inputs = inputs
        self._outputs = outputs

    def run(self, control: Control) -> Outcome:
        """Run, unless a fault prevents it. Raises HalError."""
        workload, faults = self._workload, self._workload.faults
        if faults.set.is_empty:
            return self._bound.run(control)
        RAN.set(workload.facts)
        before = faults.set.met(Point.RUN, workload.facts)
        started_ns = now_ns()
        faults.do(before, workload.facts, control)
        notes = noted(before, started_ns)
        met = faults.set.met(Point.OUTCOME, workload.facts)
        wrong = self._wrong_outputs(met, control)
        began = time.perf_counter_ns()
        outcome = self._bound.run(control)
        took, ended_ns = time.perf_counter_ns() - began, now_ns()
        outcome = self._altered(outcome, met, wrong, took, control)
        notes += noted(met, ended_ns) + self._noted_later()
        return replace(outcome, copies=outcome.copies + notes) if notes else outcome

    def _wrong_outputs(self, met: Sequence[ActiveFault], control: Control) -> Mapping[int, Array]:
        """Have layers meet their faults; return the outputs, by number, of wrong values. Raises HalError."""
        about = about_layers(met)
        if not about:
            return {}
        workload = self._workload
        if workload.lacks_constants:
            general_failure(
                f"{fault_words(about[0])}: layers cannot be wrong in a model that was restored from a cache, since its "
                "constants are not known any more: prepare it without the cache"
            )
        return LayerFaults(about, workload.model, workload.facts, workload.faults).outputs(self._inputs, control)

    def _noted_later(self) -> tuple[Copy, ...]:
        """Meet the faults of the answer and of the fence, which act when the run has been told; return their notes."""
        later = [
            each
            for point in (Point.ANSWER, Point.FENCE)
            for each in self._workload.faults.set.met(point, self._workload.facts)
        ]
        LATER.set(later)
        now = now_ns()
        return tuple(Copy(False, 0, now, now + int(_late_ns(each)), injected=each.name) for each in later)

    def _altered(
        self,
        outcome: Outcome,
        met: Sequence[ActiveFault],
        wrong: Mapping[int, Array],
        took_ns: int,
        control: Control,
    ) -> Outcome:
        """Do to an outcome what some faults say; ``wrong`` are outputs that they give. Raises HalError."""
        if wrong:
            outcome = with_outputs(wrong, outcome, self._outputs)
        workload = self._workload
        done = DoneExecution(workload.model, workload.facts, workload.faults, self._outputs, took_ns, control)
        return altered_outcome(outcome, met, done)


def _slowed_times(workload: TimedWorkload, faults: DeviceFaults, facts: ModelFacts, control: Control) -> OperationTimes:
    """Return the times of a workload's operations, with what faults add to those that they slow down."""
    return slowed(workload.operation_times(control), faults.set.states(), facts)


def slowed(times: OperationTimes, faults: Sequence[CountedFault], facts: ModelFacts) -> OperationTimes:
    """Return measured times with the delays of faults that are about layers. Modelled ones are as they were."""
    found = list(times.times)
    for delay in (each.fault for each in faults if isinstance(each.fault, DelayFault) and each.fault.layer):
        for layer in () if times.is_modelled else layers_of_fault(delay, facts):
            own = [n for n, each in enumerate(found) if not layer.subgraph and layer.number in each.operations]
            named = [n for n in own if found[n].name in layer.names] if layer.place else own
            for number in named[:1]:
                found[number] = replace(found[number], duration=found[number].duration + delay.ms * 1e6)
    return replace(times, times=tuple(found))


def noted(faults: Sequence[ActiveFault], started_ns: int) -> tuple[Copy, ...]:
    """Notes of faults that were injected from an instant until now, for timeline and ledger."""
    return tuple(Copy(False, 0, started_ns, now_ns(), injected=active.name) for active in faults)


def _late_ns(active: ActiveFault) -> float:
    return active.fault.ms * 1e6 if isinstance(active.fault, AnswerFault) else 0.0


class _FaultyAsynchronous(_FaultyBound):
    """Workload with faults, for a device with a command queue."""

    def __init__(
        self,
        bound: AsynchronousWorkload,
        workload: FaultyWorkload,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument],
    ) -> None:
        super().__init__(bound, workload, inputs, outputs)
        self._asynchronous = bound

    def enqueue(self, control: Control) -> Pending:
        """Enqueue a run; faults act when the queue has been synced, but values are wrong for what is enqueued next."""
        facts, faults = self._workload.facts, self._workload.faults
        before, after = (faults.set.met(point, facts) for point in (Point.RUN, Point.OUTCOME))
        later = () if faults.set.is_empty else self._noted_later()
        alters = bool(about_layers(after)) or any(isinstance(active.fault, ValuesFault) for active in after)
        if alters:
            ended = self._asynchronous.run(control)
        else:
            pending = self._asynchronous.enqueue(control)
            if not before and not after and not later:
                return pending

        def conclude(outcome: Outcome) -> Outcome:
            started_ns, span = now_ns(), outcome.span
            faults.do(before, facts, control)
            wrong = self._wrong_outputs(after, control)
            outcome = self._altered(outcome, after, wrong, span.ended_ns - span.started_ns, control)
            return replace(outcome, copies=outcome.copies + noted((*before, *after), started_ns) + later)

        if alters:
            concluded = conclude(ended)
            return _Pending(lambda: concluded)
        context = copy_context()  # another thread may sync
        return _Pending(lambda: context.run(conclude, pending.result()))


class _Pending:
    """A run that was enqueued, or has ended before."""

    def __init__(self, result: Callable[[], Outcome]) -> None:
        """``result`` returns its outcome, and raises HalError."""
        self.result = result


def objection_to(fault: Fault, driver: Driver) -> str:
    """Say why a driver cannot have a fault; empty if it can."""
    if isinstance(fault, ShrunkSramFault):
        return _of_sram(fault, driver)
    if isinstance(fault, LayerCondition) and fault.layer and driver.backend.memory is not None:
        return f"layer: {driver.name} computes on another host; set the fault there"
    return ""


def _of_sram(fault: ShrunkSramFault, driver: Driver) -> str:
    if not isinstance(driver, ShrinkableDriver):
        return (
            f"{driver.name} has no SRAM of its own; the fault's 'device' is to name devices that have, such as ethos_u"
        )
    if fault.bytes >= driver.working_bytes:
        return f"bytes: got {fault.bytes:,}, expected fewer than the {driver.working_bytes:,} of {driver.name}"
    return ""
