"""A driver around another one, whose preparations and executions meet faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, cast

from nnhal.resolved import ResolvedModel
from nnhal_devices.driver import (
    Argument,
    AsynchronousWorkload,
    BoundWorkload,
    CompiledWorkload,
    Control,
    Driver,
    Outcome,
    Pending,
    PrepareOptions,
    RestoringDriver,
    ShownWorkload,
    Workload,
)
from nnhal_devices.faults.fault_set import Point
from nnhal_devices.faults.injection import DeviceFaults
from nnhal_devices.faults.model_facts import ModelFacts, facts_of


def with_faults(driver: Driver, faults: DeviceFaults) -> Driver:
    """Return a driver that does what another one does, apart from the faults."""
    return cast(Driver, _FaultyDriver(driver, faults))


class _FaultyDriver:
    """What it does not have of itself, it has of the driver."""

    def __init__(self, driver: Driver, faults: DeviceFaults) -> None:
        self._driver = driver
        self._faults = faults
        if isinstance(driver, RestoringDriver):
            self._restoring = driver
            self.restore = self._restore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        """Prepare a model, unless a fault prevents it. Raises HalError."""
        facts = self._meet(model, options)
        return FaultyWorkload(self._driver.prepare(model, options), facts, self._faults)

    def _restore(self, model: ResolvedModel, options: PrepareOptions) -> Workload | None:
        workload = self._restoring.restore(model, options)
        if workload is None:  # it is prepared next
            return None
        return FaultyWorkload(workload, self._meet(model, options), self._faults)

    def _meet(self, model: ResolvedModel, options: PrepareOptions) -> ModelFacts:
        facts = facts_of(model)
        self._faults.inject(Point.PREPARE, facts)
        options.check()
        return facts


class FaultyWorkload:
    """A workload whose runs meet faults."""

    def __init__(self, workload: Workload, facts: ModelFacts, faults: DeviceFaults) -> None:
        self._workload = workload
        self._faults = faults
        self.facts = facts
        # The host asks for these by their presence.
        if isinstance(workload, CompiledWorkload):
            self.artifact = workload.artifact
        if isinstance(workload, ShownWorkload):
            self.figures = workload.figures

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        """Bind it to memory. Raises HalError."""
        bound = self._workload.bind(inputs, outputs)
        if isinstance(bound, AsynchronousWorkload):
            return _FaultyAsynchronous(bound, self.facts, self._faults)
        return _FaultyBound(bound, self.facts, self._faults)


class _FaultyBound:
    """A bound workload whose runs meet faults."""

    def __init__(self, bound: BoundWorkload, facts: ModelFacts, faults: DeviceFaults) -> None:
        self._bound = bound
        self._facts = facts
        self._faults = faults

    def run(self, control: Control) -> Outcome:
        """Run, unless a fault prevents it. Raises HalError."""
        self._faults.inject(Point.RUN, self._facts, control)
        return self._bound.run(control)


class _FaultyAsynchronous(_FaultyBound):
    """The same for a device with a command queue."""

    def __init__(self, bound: AsynchronousWorkload, facts: ModelFacts, faults: DeviceFaults) -> None:
        super().__init__(bound, facts, faults)
        self._asynchronous = bound

    def enqueue(self, control: Control) -> Pending:
        """Enqueue a run; faults act when the queue has been synced."""
        met = self._faults.set.met(Point.RUN, self._facts)
        pending = self._asynchronous.enqueue(control)
        if not met:
            return pending
        context = copy_context()  # another thread may sync
        return _FaultyPending(pending, lambda: context.run(self._faults.do, met, self._facts, control))


class _FaultyPending:
    """A run that was enqueued and meets faults."""

    def __init__(self, pending: Pending, inject: Callable[[], None]) -> None:
        self._pending = pending
        self._inject = inject

    def result(self) -> Outcome:
        """Return its outcome. Raises HalError."""
        outcome = self._pending.result()
        self._inject()
        return outcome
