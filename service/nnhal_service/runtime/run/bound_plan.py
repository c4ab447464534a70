"""A plan that is bound to one instance of its memory: a reusable execution for each step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.remote import RemoteExecution
from nnhal.reports import StepReport
from nnhal.types import Request
from nnhal.types.layout import combine
from nnhal_service.fallback import FallbackMemoryManager
from nnhal_service.partition import SourceOperand, Step
from nnhal_service.runtime.memory.bindings import Bindings, arena_slots, client_slots
from nnhal_service.runtime.memory.requests import accesses_of, dependencies, request_of
from nnhal_service.runtime.memory.slots import Slot
from nnhal_service.runtime.memory.values import Values
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan, arena_of, passed_values
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError, require_wanted
from nnhal_service.runtime.run.chained import MAX_FENCES, Chained
from nnhal_service.runtime.run.engine import Engine
from nnhal_service.runtime.run.reports import OutputReport
from nnhal_service.runtime.run.steps import BoundStep, InTurn, Steps, bind_step

Outcome = tuple[list[StepReport], list[OutputReport]]
"""Reports of the steps, if they are measured or only some of them ran, and reports of outputs."""


class BoundPlan:
    """Runs once at a time. Its ``engine`` runs the plan if its steps cannot run as they were bound."""

    def __init__(self, prepared: PreparedPlan, bindings: Bindings) -> None:
        """Raises HalError if the bindings are not valid or a device refuses, TransportError if one is gone."""
        self.prepared = prepared
        self._bindings = bindings
        self._measure = bindings.config.measure_timing
        self._bound: list[BoundStep] = []
        self._steps: Steps | None = None
        self._alone: Chained | None = None
        self._given = {**bindings.inputs, **bindings.outputs}
        self._has_buffers = any(b.memory is not None and b.memory.device for b in self._given.values())
        self.dimensions = prepared.dimensions_with({n: b.dimensions for n, b in self._given.items() if b.dimensions})
        self._manager = self._memory_manager()
        self._take_memory()
        try:
            self.bind()
        except BaseException as error:
            if not (isinstance(error, TransportError) and prepared.parts.may_fall_back):
                self.close()
                raise
            bindings.missed(prepared.gone)

    @property
    def socket_bytes(self) -> int:
        """Bytes that went to devices and back so far."""
        steps, engine = self._steps, self.engine
        return engine.socket_bytes if steps is None or steps is engine else steps.socket_bytes + engine.socket_bytes

    def run(self, deadline_ns: int, cancellation: Cancellation | None = None) -> Outcome:
        """Run the steps as they were bound, and in the engine if that fails.

        Raises HalError, TransportError, and CancelledRunError if the run is cancelled.
        """
        if self._has_buffers:  # they may have been allocated again, with other tokens
            self._unbind_dead()
        engine, steps = self.engine, self._steps
        engine.fell_back = engine.ran_whole = False
        try:
            if steps is None:
                steps = self.bind()
            outcome = steps.run(deadline_ns, cancellation)
        except CancelledRunError:
            raise
        except NnhalError as error:
            return self._recover(deadline_ns, error, steps, cancellation)
        if engine.fell_back:
            self._note_gone()
        return outcome

    def bind(self) -> Steps:
        """The steps on their own devices, bound again if a device came back. Raises as binding does."""
        if self._steps is None:
            if not self._is_bindable:
                self._steps = self.engine
                return self.engine
            try:
                for number, step in enumerate(self.prepared.plan.steps):
                    part = self.prepared.parts.living(number)  # before the request: its tokens must not be older
                    inputs, outputs = self._slots_of(step)
                    names = [slot.name for slot in outputs]
                    side = self.prepared.sides[step.device]
                    request = self._request(inputs, outputs)
                    self._bound.append(bind_step(side, names, part, request, self._bindings.config))
                self._steps = self._runner()
            except BaseException:
                self._unbind()
                raise
        return self._steps

    def bind_for_launch(self) -> Chained | None:
        """The steps as they can be launched; None if they cannot be fenced. Raises as ``bind`` does."""
        steps: Steps | None = None
        self._note_gone()
        try:
            steps = self.bind()
        except NnhalError as error:
            if not self.engine.may_resume(error):
                raise self._naming(error, self._note_gone()) from error
        return steps if isinstance(steps, Chained) else self._launcher(steps)

    def direct_execution(self) -> RemoteExecution | None:
        """The execution of the only step; None if there are several, or a run is more than it."""
        if not isinstance(self.bind(), InTurn) or len(self._bound) != 1 or self._measure:
            return None
        (step,) = self.prepared.plan.steps
        if not all(self._has_known_size(operand) for operand in step.outputs):
            return None
        return self._bound[0].execution

    def lengths(self) -> dict[int, int]:
        """Bytes of the values of main that have memory of their own; of that memory if a size is not known."""
        places = {number: binding.location.length for number, binding in self._given.items()}
        return {n: slot.element.size(slot.dimensions) or places.get(n, 0) for n, slot in self._slots.items()}

    def close(self) -> None:
        """Release the executions and the memory. No run may be in flight."""
        self._unbind()
        self._give_memory_back()
        if self._manager is not self.prepared.memory:
            self._manager.close()

    def _recover(
        self, deadline_ns: int, error: NnhalError, steps: Steps | None, cancellation: Cancellation | None
    ) -> Outcome:
        """Resume a failed run in the engine, if that is allowed."""
        done = steps.done if steps is not None else None
        gone = self._note_gone()
        if steps is self.engine or not self.engine.may_resume(error):
            require_wanted(cancellation)
            raise self._naming(error, gone)
        if isinstance(error, TransportError) and not gone and steps is not None:
            # The device may have stopped in the middle of a step, and may write when it continues.
            self._unbind()
            self._give_memory_back(is_done=False)
            self._take_memory()
            done = None
        require_wanted(cancellation)
        return self.engine.resume(deadline_ns, error, done, cancellation)

    def _note_gone(self) -> frozenset[str]:
        """The devices that are gone; their steps are bound again at the next run after they come back."""
        gone = self.prepared.gone
        self._unbind_dead()
        if gone:
            self._bindings.missed(gone)
        return gone

    def _unbind_dead(self) -> None:
        """Unbind the steps if a process that they are bound on is gone, whether or not its device came back."""
        if any(step.part.prepared.gone for step in self._bound):
            self._unbind()

    def _naming(self, error: NnhalError, gone: frozenset[str]) -> NnhalError:
        """The error of a run that cannot be resumed, with the devices that it needs."""
        if not gone or isinstance(error, HalError):
            return error
        return DeadObjectError(f"the model needs {', '.join(sorted(gone))}, which is gone: {error}")

    def _memory_manager(self) -> FallbackMemoryManager:
        """The model's manager, or one for this binding, whose dimensions give more values a known size."""
        prepared = self.prepared
        if self.dimensions is prepared.dimensions:
            return prepared.memory
        model, plan = prepared.imported.model, prepared.plan
        values = passed_values(model, plan, prepared.sides, self.dimensions, prepared.element_sizes)
        return FallbackMemoryManager(arena_of(plan, values))

    def _take_memory(self) -> None:
        prepared, bindings = self.prepared, self._bindings
        slots = client_slots(prepared, self._given, bindings.pools, self.dimensions)
        self._memory = self._manager.acquire()
        try:
            self._slots = slots | arena_slots(prepared, self._manager, self._memory, self.dimensions)
            self._values = Values(prepared, self.dimensions, self._slots)
            self.engine = Engine(prepared, self._values, bindings.config)
            self._is_bindable = bool(prepared.plan.steps) and self._is_static()
        except BaseException:
            self._manager.release(self._memory)
            raise

    def _give_memory_back(self, is_done: bool = True) -> None:
        """``is_done`` says that no device writes to it any more."""
        self.engine.close()
        self._manager.release(self._memory, is_done)

    def _launcher(self, steps: Steps | None) -> Chained | None:
        """The launcher of the only step, which otherwise runs over a burst; None if an output's size is unknown."""
        stated = all(self._is_stated(operand) for operand in self._bindings.outputs)
        if self._alone is None and stated and isinstance(steps, InTurn) and len(self._bound) == 1:
            with suppress(NnhalError):  # a device without launches, or one whose loss the run itself will notice
                bound = replace(self._bound[0], is_asynchronous=False)
                self._alone = Chained([bound], [()], frozenset(), self._measure)
        return self._alone

    def _is_static(self) -> bool:
        """Whether all requests can be made in advance: no control flow to walk, and all sizes known but the results'.

        The inputs of a single step count only if the memory that they lie in determines their dimensions later.
        """
        plan = self.prepared.plan
        if plan.walk is not None or not all(slot.has_room for slot in self._slots.values()):
            return False
        if len(plan.steps) == 1:
            return all(
                slot.element.size(slot.stated)
                for number, slot in self._slots.items()
                if number in self._bindings.inputs and self._bindings.inputs[number].memory is not None
            )
        return all(self._has_known_size(operand) for step in plan.steps for operand in step.outputs)

    def _has_known_size(self, operand: int) -> bool:
        slot = self._slots.get(operand)
        if slot is None:
            return False
        return slot.element.size(combine(self.prepared.dimensions[operand], slot.stated) or ()) > 0

    def _is_stated(self, operand: int) -> bool:
        """Whether model and client themselves determine the size of an output; a single step is the model as it is."""
        slot, dimensions = self._slots[operand], self.prepared.imported.model.main.operands[operand].dimensions
        return slot.element.size(combine(dimensions, slot.stated) or ()) > 0

    def _slots_of(self, step: Step) -> tuple[list[Slot], list[Slot]]:
        return (
            self._values.slots([SourceOperand(0, operand) for operand in step.inputs]),
            self._values.slots([SourceOperand(0, operand) for operand in step.outputs]),
        )

    def _request(self, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Request:
        """A step's request, for any run: without the dimensions that earlier runs have learnt."""
        for slot in (*inputs, *outputs):
            slot.forget()
        return request_of(inputs, outputs, own=True)

    def _runner(self) -> Steps:
        """The steps, chained by fences if there are several and the contract allows fences, else in turn."""
        if len(self._bound) > 1:
            needs = dependencies([accesses_of(*self._slots_of(step)) for step in self.prepared.plan.steps])
            if max(map(len, needs)) <= MAX_FENCES:
                shown = frozenset(value.first for value in self.prepared.values.values() if value.needs_sync)
                return Chained(self._bound, needs, shown, self._measure)
        return InTurn(self._bound, self._measure)

    def _unbind(self) -> None:
        self._bindings.released()
        if self._steps is not None and self._steps is not self.engine:
            self._steps.close()
        if self._alone is not None:
            self._alone.close()
        self._steps = self._alone = None
        for step in self._bound:
            step.execution.release()
        self._bound.clear()
