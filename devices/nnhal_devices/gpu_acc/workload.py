"""Prepared models of gpu_acc: workloads of cpu_acc that run in the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import CLOCK_BOOTTIME, clock_gettime_ns

from nnhal.resolved import ResolvedModel
from nnhal.types import Span
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.shapes import execution_dimensions
from nnhal_devices.cpu_acc.workload import OnnxWorkload
from nnhal_devices.driver import Argument, BoundWorkload, Control, Outcome
from nnhal_devices.figures import OperationTimes
from nnhal_devices.gpu_acc.memory import WorkingMemory, working_bytes
from nnhal_devices.gpu_acc.performance import ROOFLINE
from nnhal_devices.gpu_acc.queue import InOrderQueue, QueuedWork
from nnhal_devices.measured import modelled_times


@dataclass(frozen=True, slots=True)
class Needs:
    """Needs of one execution, by the cost model: working memory and time."""

    bytes: int
    duration_ns: int


def needs_of(model: ResolvedModel) -> Needs:
    """The needs of a model, as the device runs it. Unknown axes count as 1."""
    return Needs(working_bytes(model), round(sum(ROOFLINE.operation_ns(model))))


class QueuedWorkload:
    """A model, and the workload that does its arithmetic."""

    takes_empty = True

    def __init__(
        self,
        model: ResolvedModel,
        numbers: Sequence[tuple[int, ...]],
        arithmetic: OnnxWorkload,
        queue: InOrderQueue,
        memory: WorkingMemory,
    ) -> None:
        """``numbers`` are those that the model's operations had before they were fused.

        Raises GENERAL_FAILURE if the device has too little working memory for it.
        """
        self._model = model
        self._numbers = numbers
        self._arithmetic = arithmetic
        self._queue = queue
        self._memory = memory
        main = model.model.main
        self._declared = [main.operands[index].dimensions for index in main.input_indexes]
        self._needs = needs_of(model)
        memory.require(self._needs.bytes)

    def artifact(self) -> Sequence[memoryview]:
        """That of the arithmetic, if it has any: the model is cached in any case."""
        return self._arithmetic.artifact() or ()

    def operation_times(self, control: Control) -> OperationTimes:
        return modelled_times(self._model, ROOFLINE.operation_ns(self._model), self._numbers)

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> QueuedRun:
        bound = self._arithmetic.bind(inputs, outputs)
        given = [argument.dimensions for argument in inputs]
        needs = self._needs if given == self._declared else needs_of(_sized(self._model, given))
        return QueuedRun(bound, needs, self._queue, self._memory)


class QueuedRun:
    """An AsynchronousWorkload bound to memory."""

    def __init__(self, bound: BoundWorkload, needs: Needs, queue: InOrderQueue, memory: WorkingMemory) -> None:
        self._bound = bound
        self._needs = needs
        self._queue = queue
        self._memory = memory

    def run(self, control: Control) -> Outcome:
        """Enqueue a run and sync, which first does what other sessions have enqueued before."""
        queued = self.enqueue(control)
        self._queue.sync(control)
        return queued.result()

    def enqueue(self, control: Control) -> QueuedWork:
        """Enqueue a run, which checks its deadline when its turn comes."""
        return self._queue.enqueue(lambda: self._run(control))

    def _run(self, control: Control) -> Outcome:
        control.check()
        started = clock_gettime_ns(CLOCK_BOOTTIME)
        self._memory.acquire()
        try:
            self._memory.grow(self._needs.bytes)
            outcome = self._bound.run(control)
        finally:
            self._memory.release()
        return Outcome(outcome.dimensions, self._needs.duration_ns, Span(started, clock_gettime_ns(CLOCK_BOOTTIME)))


def _sized(model: ResolvedModel, given: Sequence[Dimensions]) -> ResolvedModel:
    """The model with the dimensions of one execution; ``given`` are those of its inputs."""
    main = model.model.main
    found = execution_dimensions(model, dict(zip(main.input_indexes, given, strict=True)))
    operands = tuple(
        replace(operand, dimensions=found.get(index, operand.dimensions)) for index, operand in enumerate(main.operands)
    )
    return replace(model, model=replace(model.model, main=replace(main, operands=operands)))
