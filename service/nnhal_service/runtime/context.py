"""One instance of a plan: an arena, and for each step a reusable execution tied to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from nnhal.errors import HalError, NnhalError, TransportError, general_failure
from nnhal.fence import Fence
from nnhal.types import NO_DEADLINE, NO_HINTS, ErrorStatus, ExecutionConfig, Hints, Memory, Request, RunUsage
from nnhal.types.layout import combine
from nnhal_service.fallback import FallbackMemoryManager
from nnhal_service.partition import SourceOperand, Step
from nnhal_service.runtime.binding import TensorBinding, bindings_of
from nnhal_service.runtime.bound_step import BoundStep, Steps, bind_step
from nnhal_service.runtime.bound_tensors import arena_slots, client_slots
from nnhal_service.runtime.chained import MAX_FENCES, Access, Chained, Launched, dependencies
from nnhal_service.runtime.direct import Lending, LentStep
from nnhal_service.runtime.engine import Engine
from nnhal_service.runtime.in_turn import InTurn
from nnhal_service.runtime.launched_run import LaunchedRun, Ways, launch_run
from nnhal_service.runtime.ledger import ledger_of
from nnhal_service.runtime.passing import arena_of, passed_values
from nnhal_service.runtime.prepared_plan import PreparedPlan
from nnhal_service.runtime.reports import OutputReport, RunReport, StepReport
from nnhal_service.runtime.requests import pool_key, request_of
from nnhal_service.runtime.slots import Place, Slot
from nnhal_service.runtime.used_memory import UsedMemory
from nnhal_service.runtime.values import Values
from nnhal_service.runtime.watcher import RunWatcher


class ExecutionContext:
    """A prepared plan tied to memory. Runs once at a time."""

    def __init__(
        self,
        prepared: PreparedPlan,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure_timing: bool,
        loop_timeout_duration_ns: int = -1,
        hints: Hints = NO_HINTS,
        watcher: RunWatcher | None = None,
    ) -> None:
        """``watcher`` is told of every run.

        Raises HalError where the bindings are not valid or a device refuses, TransportError where one is gone.
        """
        self._busy = threading.Lock()
        self._closed = False
        self._prepared = prepared
        self._measure = measure_timing
        self._config = ExecutionConfig(measure_timing, loop_timeout_duration_ns, hints.values, hints.extension_names)
        self._bound: list[BoundStep] = []
        self._steps: Steps | None = None
        self._alone: Chained | None = None
        self._watcher = watcher
        self._lending = Lending()
        self._inputs = bindings_of(prepared.imported.inputs, inputs, "input")
        self._outputs = bindings_of(prepared.imported.outputs, outputs, "output")
        bound = {**self._inputs, **self._outputs}
        self._dimensions = prepared.dimensions_with({n: b.dimensions for n, b in bound.items() if b.dimensions})
        self._used = UsedMemory(self._inputs, self._outputs, self._dimensions)
        self._slots = client_slots(prepared, bound, pools, self._dimensions)
        self._manager = self._memory_manager()
        self._memory = self._manager.acquire()
        try:
            self._slots |= arena_slots(prepared, self._manager, self._memory, self._dimensions)
            self._values = Values(prepared, self._dimensions, self._slots)
            self._engine = Engine(prepared, self._values, self._config)
            self._requests = [self._request(step) for step in prepared.plan.steps] if self._is_static() else []
            try:
                self._bind()
            except TransportError:
                if not prepared.parts.may_fall_back:
                    raise
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
            return self._run(lambda: self._attempt(deadline_ns))
        finally:
            self._busy.release()

    def launch(
        self, fences: Sequence[Fence], deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
    ) -> LaunchedRun:
        """Launch a run, to begin when the fences have signalled and to take ``duration_ns`` at most from then on.

        Raises as ``run`` where it cannot be launched and may not run on the CPU instead.
        """
        if not self._busy.acquire(blocking=False):
            general_failure("the binding runs already; one run at a time is allowed")
        try:
            if self._closed:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
            ways = self._ways()
        except BaseException:
            self._busy.release()
            raise
        return launch_run(ways, fences, deadline_ns, duration_ns)

    def lend(self) -> LentStep | None:
        """Lend the only step to who is to run it by himself; None where there are several, or a run is more than that.

        It is lent until the context is closed, or bound anew since its device came back. Raises as ``run``.
        """
        if not self._busy.acquire(blocking=False):
            general_failure("the binding runs already; one run at a time is allowed")
        try:
            if self._closed:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
            steps = self._bind()
            if not isinstance(steps, InTurn) or len(self._bound) != 1 or not self._used.is_empty or self._measure:
                return None
            (step,) = self._prepared.plan.steps
            if not all(self._has_known_size(operand) for operand in step.outputs):
                return None
            return self._lending.lend(self._bound[0].execution)
        finally:
            self._busy.release()

    @property
    def is_lent(self) -> bool:
        """Whether somebody has the only step."""
        return self._lending.is_lent

    def count_lent(self) -> None:
        """Have the watcher know of what has been run of a step that is lent."""
        self._tell_lent(self._lending.take_usage())

    @property
    def items(self) -> int:
        """The length of the first input's first axis; 1 without one."""
        for tensor in self._prepared.imported.inputs[:1]:
            return (*self._dimensions[tensor.operand], 1)[0] or 1
        return 1

    def close(self) -> None:
        """Release it, when a run in flight has ended; harmless when repeated."""
        with self._busy:
            if not self._closed:
                self._closed = True
                self._unbind()
                self._engine.close()
                self._release()

    def _memory_manager(self) -> FallbackMemoryManager:
        """The model's, or one for this binding alone, whose dimensions give more values a known size."""
        prepared = self._prepared
        if self._dimensions is prepared.dimensions:
            return prepared.memory
        model, plan = prepared.imported.model, prepared.plan
        values = passed_values(model, plan, prepared.sides, self._dimensions, prepared.element_sizes)
        return FallbackMemoryManager(arena_of(plan, values))

    def _release(self) -> None:
        self._manager.release(self._memory)
        if self._manager is not self._prepared.memory:
            self._manager.close()

    def _ways(self) -> Ways:
        """How a run can be launched. Memory that tells its dimensions only when it is used cannot be fenced."""
        engine = self._engine
        steps: Steps | None = None
        if any(part.member.remote.gone for part in self._prepared.parts):
            self._unbind()
        try:
            steps = self._bind()
        except NnhalError as error:
            if not engine.may_resume(error):
                raise
        fenced = steps if isinstance(steps, Chained) else self._launcher(steps)
        if not self._used.is_empty:
            fenced = None

        def finish(launched: Sequence[Launched]) -> tuple[list[StepReport], list[OutputReport]]:
            engine.fell_back = engine.ran_whole = False
            return fenced.finish(launched) if fenced is not None else ([], [])

        return Ways(
            fenced,
            lambda launched: self._run(lambda: finish(launched)),
            lambda deadline_ns: self._run(lambda: self._attempt(deadline_ns)),
            self._on_cpu if self._prepared.parts.may_fall_back else None,
            self._busy.release,
        )

    def _on_cpu(self, deadline_ns: int, error: NnhalError) -> RunReport:
        return self._run(lambda: self._engine.run_whole(deadline_ns, error))

    def _launcher(self, steps: Steps | None) -> Chained | None:
        """What launches the only step, which else runs over a burst; None where the size of an output is open."""
        stated = all(self._is_stated(operand) for operand in self._outputs)
        if self._alone is None and stated and isinstance(steps, InTurn) and len(self._bound) == 1:
            with suppress(NnhalError):  # a device without launches, or one that the run itself will miss
                bound = replace(self._bound[0], is_asynchronous=False)
                self._alone = Chained([bound], [()], frozenset(), self._measure)
        return self._alone

    def _run(self, attempt: Callable[[], tuple[list[StepReport], list[OutputReport]]]) -> RunReport:
        instant, started = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.perf_counter_ns()
        self._used.require_usable()
        before = self._socket_bytes
        try:
            reports, outputs = attempt()
        except BaseException:
            self._used.note_failed()
            if self._watcher is not None:
                self._watcher.failed(self, time.perf_counter_ns() - started)
            raise
        self._used.note_written(outputs)
        duration, socket_bytes = time.perf_counter_ns() - started, self._socket_bytes - before
        if self._watcher is not None:
            self._watcher.ran(self, duration)
        fell_back = self._engine.fell_back
        if not self._measure:
            return RunReport(duration, socket_bytes, outputs=tuple(outputs), started_ns=instant, fell_back=fell_back)
        ledger = ledger_of(self._prepared, self._lengths(), reports, self._engine.ran_whole)
        return RunReport(duration, socket_bytes, tuple(reports), tuple(outputs), ledger, instant, fell_back)

    def _attempt(self, deadline_ns: int) -> tuple[list[StepReport], list[OutputReport]]:
        """Run the steps as they were bound, and in the engine where that fails."""
        self._engine.fell_back = self._engine.ran_whole = False
        steps: Steps | None = None
        try:
            steps = self._bind()
            return steps.run(deadline_ns)
        except NnhalError as error:
            done = steps.done if steps is not None else None
            if any(part.member.remote.gone for part in self._prepared.parts):
                self._unbind()  # what came back is bound anew at the next run
            if steps is self._engine or not self._engine.may_resume(error):
                raise
            return self._engine.resume(deadline_ns, error, done)

    @property
    def _socket_bytes(self) -> int:
        bound = self._steps.socket_bytes if self._steps is not None and self._steps is not self._engine else 0
        return bound + self._engine.socket_bytes

    def _lengths(self) -> dict[int, int]:
        """Bytes of the values of main that have a place of their own, of the place itself where they are not known."""
        places = {number: binding.location.length for number, binding in {**self._inputs, **self._outputs}.items()}
        return {n: slot.element.size(slot.dimensions) or places.get(n, 0) for n, slot in self._slots.items()}

    def _is_static(self) -> bool:
        """Whether all requests can be made beforehand: no control flow to walk, and all sizes known but of results.

        The inputs of a single step count only where memory may tell their dimensions later.
        """
        plan = self._prepared.plan
        if plan.walk is not None or not all(slot.has_room for slot in self._slots.values()):
            return False
        if len(plan.steps) == 1:
            return all(
                slot.element.size(slot.stated)
                for number, slot in self._slots.items()
                if number in self._inputs and self._inputs[number].memory is not None
            )
        return all(self._has_known_size(operand) for step in plan.steps for operand in step.outputs)

    def _has_known_size(self, operand: int) -> bool:
        slot = self._slots.get(operand)
        if slot is None:
            return False
        return slot.element.size(combine(self._prepared.dimensions[operand], slot.stated) or ()) > 0

    def _is_stated(self, operand: int) -> bool:
        """Whether model and client themselves say what size an output has: a single step is the model as it is."""
        slot, dimensions = self._slots[operand], self._prepared.imported.model.main.operands[operand].dimensions
        return slot.element.size(combine(dimensions, slot.stated) or ()) > 0

    def _slots_of(self, step: Step) -> tuple[list[Slot], list[Slot]]:
        return (
            self._values.slots([SourceOperand(0, operand) for operand in step.inputs]),
            self._values.slots([SourceOperand(0, operand) for operand in step.outputs]),
        )

    def _request(self, step: Step) -> Request:
        return request_of(*self._slots_of(step), own=True)

    def _bind(self) -> Steps:
        """What runs the steps on their own devices, bound anew where one came back. Raises as binding does."""
        if self._steps is None:
            if not self._requests:
                self._steps = self._engine
                return self._engine
            try:
                for number, (step, request) in enumerate(zip(self._prepared.plan.steps, self._requests, strict=True)):
                    part = self._prepared.parts.living(number)
                    names = [slot.name for slot in self._slots_of(step)[1]]
                    side = self._prepared.sides[step.device]
                    self._bound.append(bind_step(side, names, part, request, self._config))
                self._steps = self._runner()
            except BaseException:
                self._unbind()
                raise
        return self._steps

    def _runner(self) -> Steps:
        """What runs the steps: chained by fences where there are several and the contract lets them be fenced."""
        if len(self._bound) > 1:
            needs = dependencies([self._accesses(step) for step in self._prepared.plan.steps])
            if max(map(len, needs)) <= MAX_FENCES:
                shown = frozenset(value.first for value in self._prepared.values.values() if value.needs_sync)
                return Chained(self._bound, needs, shown, self._measure)
        return InTurn(self._bound)

    def _accesses(self, step: Step) -> list[Access]:
        inputs, outputs = self._slots_of(step)
        return [
            *(_access(slot.to_read(own=True), False) for slot in inputs if slot.has_value),
            *(_access(slot.to_write(own=True), True) for slot in outputs),
        ]

    def _tell_lent(self, usage: RunUsage) -> None:
        if self._watcher is not None and usage != RunUsage():
            self._watcher.lent(self, usage)

    def _unbind(self) -> None:
        self._tell_lent(self._lending.end())
        if self._steps is not None and self._steps is not self._engine:
            self._steps.close()
        if self._alone is not None:
            self._alone.close()
        self._steps = self._alone = None
        for step in self._bound:
            step.execution.release()
        self._bound.clear()


def _access(place: Place, is_write: bool) -> Access:
    """A device's own buffer is one thing, whatever its size."""
    return Access(pool_key(place.pool), place.offset, place.offset + max(place.length, 1), is_write)
