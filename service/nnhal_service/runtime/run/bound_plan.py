"""A plan that is bound to one instance of its memory: a reusable execution for each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from nnhal.errors import DeadObjectError, HalError, MissingMethodError, NnhalError, TransportError
from nnhal.link import ProtocolError, Traffic
from nnhal.remote.watch import StalledError
from nnhal.types import ErrorStatus, Memory, Request
from nnhal.types.layout import Dimensions, combine
from nnhal_hosting.logs import get_logger
from nnhal_service.fallback import FallbackMemoryManager, PassedValues
from nnhal_service.partition import SourceOperand, Step
from nnhal_service.runtime.memory.bindings import Bindings, arena_slots, client_slots, resident_slots
from nnhal_service.runtime.memory.requests import accesses_of, dependencies, request_of
from nnhal_service.runtime.memory.slots import HostSlot, Slot
from nnhal_service.runtime.memory.values import Values
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.sketch import arena_of, passed_values
from nnhal_service.runtime.run.cancellation import Cancellation, CancelledRunError, require_wanted
from nnhal_service.runtime.run.chained import MAX_FENCES, Chained
from nnhal_service.runtime.run.engine import Engine
from nnhal_service.runtime.run.reports import TouchedMemoryError
from nnhal_service.runtime.run.run_channel import DirectChain, DirectPath, DirectStep, LentEnd
from nnhal_service.runtime.run.steps import (
    BoundStep,
    InTurn,
    OneExchange,
    Outcome,
    SingleStep,
    Steps,
    bind_step,
    executions_of,
    numbers_answers,
)
from nnhal_service.runtime.run.wired import Wired
from nnhal_service.runtime.run.wiring import Bells, Stragglers, Wiring

NO_LENGTHS: Mapping[str, Dimensions] = MappingProxyType({})
_log = get_logger(__name__)


class BoundPlan:
    """Runs once at a time. Its ``engine`` runs the plan if its steps cannot run as they were bound."""

    def __init__(self, prepared: PreparedPlan, bindings: Bindings) -> None:
        """Raises HalError if the bindings are not valid or a device refuses, TransportError if one is gone."""
        self.prepared = prepared
        self.traffic = Traffic()
        """Bytes that went to devices and back so far."""
        self._bindings = bindings
        self._measure = bindings.config.measure_timing
        self._bound: list[BoundStep] = []
        self._needs: list[tuple[int, ...]] = []
        self._steps: Steps | None = None
        self._exchange: OneExchange | None = None
        self._fenced: Chained | None = None
        self._direct: Wiring | None = None
        self._is_lent = False
        self._given = {**bindings.inputs, **bindings.outputs}
        self._has_buffers = any(b.memory is not None and b.memory.device for b in self._given.values())
        given = {} if bindings.varies else {n: b.dimensions for n, b in self._given.items() if b.dimensions}
        self.dimensions = prepared.dimensions_with(given)
        self.values = self._passed_values()
        """The values of the plan, as far as their dimensions are known for this binding."""
        self._manager = self._memory_manager()
        self._take_memory()
        try:
            self.bind()
        except BaseException as error:
            is_failure = isinstance(error, HalError) and error.status == ErrorStatus.GENERAL_FAILURE
            if not ((is_failure or isinstance(error, TransportError)) and prepared.parts.may_fall_back):
                self.close()
                raise
            if is_failure or isinstance(error.__cause__, ProtocolError):
                _log.warning("a device cannot be bound: runs may fall back", reason=str(error))
            bindings.missed(prepared.gone)

    @property
    def has_known_outputs(self) -> bool:
        """Return whether the sizes of all outputs of its steps are known before a run, to those who need them."""
        return all(self._has_known_size(operand) for step in self.prepared.plan.steps for operand in step.outputs)

    @property
    def arena(self) -> tuple[Memory, ...]:
        """The memory of the values between steps."""
        return tuple(self._memory.pools.values())

    @property
    def lengths_of_step(self) -> Sequence[str]:
        """The names of the model's inputs in the order of the only step's, for runs with lengths of their own."""
        names = {tensor.operand: tensor.name for tensor in self.prepared.imported.inputs}
        return [names.get(operand, "") for operand in self.prepared.plan.steps[0].inputs]

    def run(
        self, deadline_ns: int, cancellation: Cancellation | None = None, lengths: Mapping[str, Dimensions] = NO_LENGTHS
    ) -> Outcome:
        """Run the steps as they were bound, and in the engine if that fails.

        ``lengths`` are the dimensions of inputs in this run, by name, if they are not those that it was bound with.

        Raises HalError, TransportError, and CancelledRunError if the run is cancelled.
        """
        if self._has_buffers or any(step.part.prepared.is_given_up for step in self._bound):
            self._unbind_dead()  # buffers may have been allocated again, with other tokens
        self._unbind_lost()
        self._require_untouched()
        if self._stragglers.there_are:
            self._replace_memory()
        engine, steps = self.engine, self._steps
        engine.fell_back = engine.ran_whole = False
        engine.injected = ()
        try:
            if steps is None:
                steps = self.bind()
            if isinstance(steps, Wired) and not steps.is_ready:
                steps = self._wire(steps)
            if self._bindings.varies:
                steps = self._resized(steps, lengths)
            outcome = steps.run(deadline_ns, cancellation)
        except CancelledRunError:
            self._note_sleepers()
            self._unbind_lost()
            raise
        except NnhalError as error:
            return self._recover(deadline_ns, error, steps, cancellation)
        if engine.fell_back:
            self._note_gone()
        return outcome

    def start(
        self, deadline_ns: int, cancellation: Cancellation | None = None, has_its_buffers: bool = False
    ) -> OneExchange | None:
        """Begin a run that is one exchange; ``finish`` ends it. None if the run must be by ``run``. ``has_its_buffers``
        says that the devices' buffers are those that it was bound to.

        Raises CancelledRunError.
        """
        exchange = self._exchange
        if exchange is None or self._stragglers.there_are or self._bindings.writers:
            return None
        if self._has_buffers and (not has_its_buffers or any(step.part.prepared.gone for step in self._bound)):
            return None
        self.engine.fell_back = self.engine.ran_whole = False
        self.engine.injected = ()
        try:
            return exchange if exchange.start(deadline_ns, cancellation) else None
        except CancelledRunError:
            raise
        except NnhalError:
            return None  # the device is gone, and the run will say so

    def recover(self, deadline_ns: int, error: NnhalError, cancellation: Cancellation | None) -> Outcome:
        """Run what was started and has failed in the engine, if that is allowed. Raises as ``run`` does."""
        if isinstance(error, CancelledRunError):
            self._note_sleepers()
            self._unbind_lost()
            raise error
        return self._recover(deadline_ns, error, self._exchange, cancellation)

    def _resized(self, steps: Steps, lengths: Mapping[str, Dimensions]) -> Steps:
        """The steps for a run of these lengths: as they are bound if they take them, else the engine's."""
        for operand, binding in self._bindings.inputs.items():
            slot = self._slots[operand]
            if binding.dimensions and isinstance(slot, HostSlot):
                slot.resize(lengths.get(binding.name, binding.dimensions))
        if isinstance(steps, SingleStep) and steps.takes_lengths:
            names = self.lengths_of_step
            steps.lengths = [(names.index(name), found) for name, found in lengths.items() if name in names]
            return steps
        return self.engine

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
                    side = self.prepared.sides[step.device]
                    request = self._request(inputs, outputs)
                    self._bound.append(bind_step(side, outputs, part, request, self._bindings.config))
                self._needs = self._dependencies()
                return self._use(self._runner())
            except BaseException as error:
                self._unbind()
                if self._bindings.varies and isinstance(error, HalError):
                    return self._use(self.engine)  # the largest lengths may contradict each other; each run has its own
                if not (isinstance(error, StalledError) and self.prepared.parts.may_fall_back):
                    raise
                _log.warning("a device hangs when it is bound: its steps are requests of their own", reason=str(error))
                return self._use(self.engine)
        return self._steps

    def bind_for_launch(self) -> Chained | None:
        """The steps as they can be launched; None if they cannot be fenced. Raises as ``bind`` does."""
        steps: Steps | None = None
        self._note_gone()
        self._unbind_lost()
        try:
            steps = self.bind()
        except NnhalError as error:
            if not self.engine.may_resume(error):
                gone = self.prepared.gone
                self._note_gone()
                raise self._naming(error, gone) from error
        return steps if isinstance(steps, Chained) else self._launcher(steps)

    def direct_path(self) -> DirectPath | None:
        """The steps as a client may run them itself; None if that is impossible, or a run is more than its steps.

        Raises HalError if a device refuses, TransportError if one is gone.
        """
        steps = self.bind()
        if self._measure or not numbers_answers(self._bound):
            return None
        lent = LentEnd([step.part.prepared for step in self._bound])
        if isinstance(steps, Wired):
            if self._direct is not None:
                self._direct.unwire()
            self._direct = Wiring(executions_of(self._bound), steps.bells, self._stragglers)
            self._is_lent = True
            return DirectChain(self._direct, lent)
        if not isinstance(steps, SingleStep) or (self._bindings.varies and not steps.takes_lengths):
            return None
        self._is_lent = True
        inputs = self.lengths_of_step if self._bindings.varies else ()
        steps.pause()
        return DirectStep(self._bound[0].execution, self._bound[0].outputs, lent, inputs)

    def lengths(self) -> dict[int, int]:
        """Bytes of the values of main that have memory of their own; of that memory if a size is not known."""
        places = {number: binding.location.length for number, binding in self._given.items()}
        return {n: slot.element.size(slot.dimensions) or places.get(n, 0) for n, slot in self._slots.items()}

    @property
    def takes_as_long_each_time(self) -> bool:
        """Return whether runs do not differ in what is computed: no control flow, and no lengths of their own."""
        return self.prepared.plan.walk is None and not self._bindings.varies and self.has_known_outputs

    def stop(self) -> None:
        """Have the devices end a run in flight, in any thread. It fails there, and may go on elsewhere."""
        for steps in (self._steps, self.engine):
            if steps is not None:
                steps.stop()

    def close(self) -> None:
        """Release the executions and the memory. No run may be in flight."""
        self._unbind()
        self._give_memory_back(is_done=not self._stragglers.there_are)
        if self._manager is not self.prepared.memory:
            self._manager.close()

    def _recover(
        self, deadline_ns: int, error: NnhalError, steps: Steps | None, cancellation: Cancellation | None
    ) -> Outcome:
        """Resume a failed run in the engine, if that is allowed and no other plan is in force."""
        if isinstance(error.__cause__, ProtocolError):
            _log.warning("a channel ends: a device has not kept to the protocol", reason=str(error))
        done = steps.done if steps is not None else None
        self._note_sleepers()
        self._unbind_lost()
        gone = self.prepared.gone
        is_replaced = self._note_gone()
        self._require_untouched()
        if is_replaced or steps is self.engine or not self.engine.may_resume(error):
            require_wanted(cancellation)
            raise self._naming(error, gone)
        if self._stragglers.there_are or (isinstance(error, TransportError) and not gone and steps is not None):
            # The device may have stopped in the middle of a step, and may write when it continues.
            self._replace_memory()
            done = None
        require_wanted(cancellation)
        return self.engine.resume(deadline_ns, error, done, cancellation)

    def _note_sleepers(self) -> None:
        """Note the steps that devices which were given up may be at work on: they write when they continue."""
        for step in self._bound:
            if step.part.prepared.is_asleep:
                self._stragglers.there_are = True
                if any(step.outputs):
                    self._bindings.writers.append(step.part.prepared)

    def _require_untouched(self) -> None:
        """Raise TouchedMemoryError if a device that sleeps may still write to the client's outputs."""
        writers = self._bindings.writers
        if writers:
            writers[:] = [writer for writer in writers if writer.is_asleep]
        if writers:
            self._stragglers.there_are = True
            raise TouchedMemoryError

    def _replace_memory(self) -> None:
        """Take other memory, since a device may still write to this one."""
        self._unbind()
        self._give_memory_back(is_done=False)
        self._take_memory()

    def _note_gone(self) -> bool:
        """Note devices that are gone; their steps are bound again at the next run after they come back.

        Returns whether the run is to be tried by another plan.
        """
        gone = self.prepared.gone
        self._unbind_dead()
        return bool(gone) and self._bindings.missed(gone)

    def _unbind_dead(self) -> None:
        """Unbind the steps if a process that they are bound on is gone, whether or not its device came back."""
        if any(step.part.prepared.gone for step in self._bound):
            self._unbind()

    def _unbind_lost(self) -> None:
        """Unbind steps if a run has lost a channel of theirs. Then no device that answers is at work on wired ones."""
        if any(isinstance(steps, Wired | Chained) and steps.is_lost for steps in (self._steps, self._fenced)):
            self._unbind()

    def _naming(self, error: NnhalError, gone: frozenset[str]) -> NnhalError:
        """The error of a run that cannot be resumed, with the devices that it needs."""
        if not gone or isinstance(error, HalError):
            return error
        return DeadObjectError(f"the model needs {', '.join(sorted(gone))}, which is gone: {error}")

    def _passed_values(self) -> PassedValues:
        prepared = self.prepared
        if self.dimensions is prepared.dimensions:
            return prepared.values
        model = prepared.imported.model
        kind = prepared.client_memory.kind
        return passed_values(model, prepared.plan, prepared.sides, self.dimensions, prepared.element_sizes, kind)

    def _memory_manager(self) -> FallbackMemoryManager:
        """The model's manager, or one for this binding, whose dimensions give more values a known size."""
        prepared = self.prepared
        if self.values is prepared.values:
            return prepared.memory
        return FallbackMemoryManager(arena_of(prepared.plan, self.values))

    def _take_memory(self) -> None:
        prepared, bindings = self.prepared, self._bindings
        slots = client_slots(prepared, self._given, bindings.pools, self.dimensions)
        self._memory = self._manager.acquire()
        self._stragglers = Stragglers()
        try:
            arena = arena_slots(prepared, self._manager, self._memory, self.dimensions)
            self._kept = resident_slots(prepared, self.values, self.dimensions)
            self._slots = slots | arena | self._kept
            self._values = Values(prepared, self.dimensions, self._slots)
            self.engine = Engine(prepared, self._values, bindings.config, bindings.writers, self.traffic)
            self._is_bindable = bool(prepared.plan.steps) and self._is_static()
        except BaseException:
            self._manager.release(self._memory)
            raise

    def _give_memory_back(self, is_done: bool = True) -> None:
        """``is_done`` says that no device writes to it any more."""
        self.engine.close()
        for slot in self._kept.values():
            slot.release()
        self._manager.release(self._memory, is_done)

    def _launcher(self, steps: Steps | None) -> Chained | None:
        """The launcher of steps that otherwise run in another way; None if they cannot be fenced."""
        if self._fenced is None and numbers_answers(self._bound):
            with suppress(NnhalError):  # a device without launches, or one whose loss the run itself will notice
                if isinstance(steps, Wired) and not self._grows:
                    self._fenced = self._chained()
                elif isinstance(steps, SingleStep) and self._is_stated():
                    bound = replace(self._bound[0], is_asynchronous=False)
                    self._fenced = Chained([bound], [()], frozenset(), self._measure, self.traffic)
        return self._fenced

    def _is_static(self) -> bool:
        """True if all requests can be made in advance: no control flow to walk, and all sizes known but the results'.

        The inputs of a single step count only if host memory that they lie in determines their dimensions later.
        """
        plan = self.prepared.plan
        if plan.walk is not None or not all(slot.has_room for slot in self._slots.values()):
            return False
        if len(plan.steps) == 1:
            return all(
                slot.element.size(slot.stated)
                for number, slot in self._slots.items()
                for binding in [self._bindings.inputs.get(number)]
                if binding is not None and binding.memory is not None and not binding.memory.device
            )
        return self.has_known_outputs

    def _has_known_size(self, operand: int) -> bool:
        slot = self._slots.get(operand)
        if slot is None:
            return False
        return slot.is_lent or slot.element.size(combine(self.prepared.dimensions[operand], slot.stated) or ()) > 0

    @property
    def _grows(self) -> bool:
        """Return whether an output is of a size that only its device knows, which no fence may wait for."""
        return any(slot.is_lent and not slot.element.size(slot.stated) for slot in self._slots.values())

    def _is_stated(self) -> bool:
        """True if model and client themselves determine the sizes of all outputs; a single step is the model itself."""
        operands = self.prepared.imported.model.main.operands
        slots = ((self._slots[operand], operands[operand].dimensions) for operand in self._bindings.outputs)
        return all(slot.element.size(combine(dimensions, slot.stated) or ()) > 0 for slot, dimensions in slots)

    def _slots_of(self, step: Step) -> tuple[list[Slot], list[Slot]]:
        return (
            self._values.slots([SourceOperand(0, operand) for operand in step.inputs]),
            self._values.slots([SourceOperand(0, operand) for operand in step.outputs]),
        )

    def _request(self, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Request:
        """A step's request, for any run: without the dimensions that earlier runs have learnt."""
        for slot in (*inputs, *outputs):
            slot.forget()
        return request_of(inputs, outputs, own=True, lasting=True)

    def _runner(self) -> Steps:
        """The steps: several are wired if all devices can, else chained by fences if these are not too many."""
        if len(self._bound) > 1 and all(step.can_be_wired for step in self._bound) and numbers_answers(self._bound):
            bells = Bells(self._needs)
            if bells.are_allowed:
                return Wired(self._bound, bells, self._stragglers, self._measure, self.traffic)
        return self._unwired()

    def _wire(self, steps: Wired) -> Steps:
        """Wire the steps, or take another way if a device refuses or cannot. Raises TransportError if one is gone."""
        try:
            steps.wire()
        except (HalError, MissingMethodError) as refusal:
            _log.info("a device does not wire its step", reason=str(refusal))
            return self._use(self._unwired())
        return steps

    def _unwired(self) -> Steps:
        if len(self._bound) == 1:
            return SingleStep(self._bound[0], self._measure, self.traffic)
        if max(map(len, self._needs)) <= MAX_FENCES and not self._grows and numbers_answers(self._bound):
            try:
                return self._chained()
            except (HalError, MissingMethodError) as refusal:
                _log.warning("a device cannot launch its step: the steps run in turn", reason=str(refusal))
        return InTurn(self._bound, self.traffic)

    def _use(self, steps: Steps) -> Steps:
        self._steps = steps
        self._exchange = steps if isinstance(steps, OneExchange) else None
        return steps

    def _chained(self) -> Chained:
        shown = frozenset(value.first for value in self.prepared.values.values() if value.needs_sync)
        return Chained(self._bound, self._needs, shown, self._measure, self.traffic)

    def _dependencies(self) -> list[tuple[int, ...]]:
        return dependencies([accesses_of(step.device, *self._slots_of(step)) for step in self.prepared.plan.steps])

    def _unbind(self) -> None:
        if self._is_lent:  # a client may have begun a direct run
            self._is_lent = False
            self._note_sleepers()
        self._bindings.released()
        if self._steps is not None and self._steps is not self.engine:
            self._steps.close()
        if self._fenced is not None:
            self._fenced.close()
        if self._direct is not None:
            self._direct.unwire()
        self._steps = self._exchange = self._fenced = self._direct = None
        for step in self._bound:
            step.execution.release()
        self._bound.clear()
