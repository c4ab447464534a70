"""A model that is prepared on devices, with the contexts that are bound to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from nnhal.errors import HalError, NnhalError, invalid_argument
from nnhal.types import NO_HINTS, ErrorStatus, Hints, Memory
from nnhal.types.layout import MAX_OPERAND_BYTES, Dimensions
from nnhal_service.runtime.context.dimensioned_binding import (
    DimensionedBinding,
    PlannedBinding,
    bound_dimensions,
    settled_outputs,
)
from nnhal_service.runtime.context.execution_context import DRAIN_SECONDS, ExecutionContext
from nnhal_service.runtime.context.weak_callback import weak_callback
from nnhal_service.runtime.memory.bindings import TensorBinding
from nnhal_service.runtime.memory.slots import Element
from nnhal_service.runtime.memory.state import CarriedState
from nnhal_service.runtime.plan.active_plan import ActivePlan
from nnhal_service.runtime.plan.dimensioned import DimensionedPlan, DimensionedPlans
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.substitutes import Substitutes
from nnhal_service.runtime.run.reports import OutputReport, RunWatcher
from nnhal_service.unloaded import UnloadedError

COUNT_SECONDS = 2.0
"""The time that devices may take, together, to say how much was run directly."""
_MOST_GIVEN = 16
"""Choices of a model's optional inputs that are kept, each with a plan of its own."""


class LoadedModel:
    """A model that is prepared on devices, with its contexts. Safe to use from several threads."""

    def __init__(
        self,
        prepared: PreparedPlan,
        plans: ActivePlan | None = None,
        dimensioned: Callable[[Mapping[str, Dimensions]], PreparedPlan] | None = None,
        outputs_for: Callable[[Mapping[str, Dimensions]], Mapping[str, Dimensions]] = lambda _: {},
        given: Callable[[Mapping[str, Dimensions]], LoadedModel] | None = None,
    ) -> None:
        """``plans`` is given for a share: the owner's. ``dimensioned`` prepares the model for certain dimensions of its
        inputs; without it all bindings use the plan for open dimensions. ``outputs_for`` tells the dimensions of
        outputs that follow from those of inputs, by name. ``given`` loads the model with optional inputs, by name and
        with their shapes, as inputs.
        """
        self._outputs_for, self._load_given = outputs_for, given
        self._given: dict[frozenset[str], LoadedModel] = {}
        self._giving = threading.Lock()
        self._lock = threading.Lock()
        self._contexts: set[ExecutionContext] | None = set()
        self._shares: set[LoadedModel] = set()
        self._owner: LoadedModel | None = None
        self._watcher: RunWatcher | None = None
        self._replanned: Callable[[Collection[str]], None] | None = None
        self._plans = ActivePlan(prepared, weak_callback(self._follow)) if plans is None else plans
        self._dimensioned: DimensionedPlans | None = None
        imported = prepared.imported
        if dimensioned is not None and not imported.states and any(0 in tensor.shape for tensor in imported.inputs):
            self._dimensioned = DimensionedPlans(prepared, dimensioned, weak_callback(self._leave_direct_runs))

    @property
    def prepared(self) -> PreparedPlan:
        """The plan that new runs follow; while devices are gone, usually one without them."""
        return self._plans.current

    @property
    def original(self) -> PreparedPlan:
        """The plan that the model was loaded with; it stays until the model is closed."""
        return self._plans.original

    @property
    def arena_bytes(self) -> int:
        """Allocated bytes of the values between steps."""
        used = {plan for plans in self._all_plans for plan in (plans.current, plans.original)}
        return sum(plan.memory.allocated_bytes for plan in used)

    @property
    def substitute_bytes(self) -> int:
        """Bytes that the substitutes of its plans count: those of the model's constants for each of them."""
        return sum(plans.substitute_bytes for plans in self._all_plans)

    def insure(self, substitutes: Substitutes) -> None:
        """Have a substitute prepared for each device of its plans, also of those that are made later."""
        self._plans.insure(substitutes)
        if self._dimensioned is not None:
            self._dimensioned.insure(substitutes)

    def with_given(self, names: Iterable[str]) -> LoadedModel:
        """The model with those of its optional inputs as inputs that are among ``names``, else itself.

        It is loaded with the first use, as its defaults are constants of this one, and closed with this one. Raises as
        loading does, and UnloadedError.
        """
        optional = {tensor.name: tensor.shape for tensor in self.original.imported.optional_inputs}
        wanted = optional.keys() & names
        if not wanted:
            return self
        with self._giving:
            found = self._given.get(frozenset(wanted))
            if found is not None:
                return found
            if len(self._given) == _MOST_GIVEN:
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"got inputs {sorted(wanted)} that have defaults, besides {_MOST_GIVEN} other choices of such "
                    "inputs: expected one of those, or the model loaded once more",
                )
            if self._owner is not None:
                found = self._owner.with_given(wanted).share(self._watcher)
            elif self._load_given is not None:
                found = self._load_given({name: optional[name] for name in wanted})
            else:
                invalid_argument(f"got inputs {sorted(wanted)}, which have defaults that this plan keeps as constants")
            found._watcher, found._replanned = self._watcher, self._replanned
            with self._lock:
                is_open = self._contexts is not None
                if is_open:
                    self._given[frozenset(wanted)] = found
                    self._shares.add(found)
        if not is_open:
            found.close()
            raise UnloadedError
        return found

    @property
    def dimensioned(self) -> list[DimensionedPlan]:
        return [] if self._dimensioned is None else self._dimensioned.all

    def share(self, watcher: RunWatcher | None) -> LoadedModel:
        """Return the same model for another user, whose runs are reported to ``watcher``; closing this model closes it.

        Raises DEVICE_UNAVAILABLE if this one has been closed.
        """
        share = LoadedModel(self.original, self._plans, outputs_for=self._outputs_for)
        share._owner, share._watcher, share._dimensioned = self, watcher, self._dimensioned
        with self._lock:
            if self._contexts is None:
                raise UnloadedError
            self._shares.add(share)
        return share

    def watch(self, watcher: RunWatcher) -> None:
        """Report the runs of everything that is bound from now on to ``watcher``."""
        self._watcher = watcher

    def on_replanned(self, replanned: Callable[[Collection[str]], None]) -> None:
        """Have ``replanned`` called, in a thread of its own, whenever a plan has taken the place of another.

        It is given the devices that the plan does without, none if it is the model's own plan.
        """
        self._replanned = replanned

    @property
    def missing(self) -> frozenset[str]:
        """Devices of its own plan that are gone, or are to be done without."""
        return frozenset().union(*(plans.missing & plans.original.devices for plans in self._all_plans))

    @property
    def contexts(self) -> list[ExecutionContext]:
        """Its contexts, without those of shares."""
        with self._lock:
            return list(self._contexts or ())

    @property
    def bindings(self) -> int:
        """Return how many contexts are bound to it, shares included."""
        with self._lock:
            return len(self._contexts or ()) + sum(share.bindings for share in self._shares)

    @property
    def devices(self) -> frozenset[str]:
        """The devices of its plan, and those of contexts that keep to their own plan."""
        with self._lock:
            contexts, shares = list(self._contexts or ()), list(self._shares)
        used = [context.lasting_devices for context in contexts]
        planned = [plans.current.devices for plans in self._all_plans]
        return frozenset().union(*planned, *used, *(share.devices for share in shares))

    def uses(self, device: str) -> bool:
        """Return whether its plan has a step on a device, or a context that keeps to its own plan has one."""
        return device in self.devices

    def avoid(self, device: str) -> None:
        """Plan it again without a device that was withdrawn, if it may be planned again. Returns at once."""
        for plans in self._all_plans:
            if device in plans.current.devices | plans.original.devices:
                plans.miss({device})

    def look(self, again: bool = False) -> None:
        """Look whether missing devices are back, as each run does; see ``ActivePlan.look``. Returns at once."""
        for plans in self._all_plans:
            if plans.missing:
                plans.look(again)

    def settle(self, seconds: float) -> None:
        """Wait for plans that are being prepared in place of others, for so many seconds each at most."""
        for plans in self._all_plans:
            plans.settle(seconds)

    def require_loaded(self, error: NnhalError) -> None:
        """Raise UnloadedError if it has been unloaded: a device may have said so in other words, by ``error``."""
        if self._contexts is None and not isinstance(error, UnloadedError):
            raise UnloadedError from error

    @property
    def is_share(self) -> bool:
        """Return whether it is a share of another loaded model."""
        return self._owner is not None

    def count_direct_runs(self, until: float | None = None) -> bool:
        """Report direct runs to the watchers; returns False if a device has not answered in time.

        Devices may answer until an instant of CLOCK_MONOTONIC, by default for COUNT_SECONDS; what they have not
        reported by then is counted the next time.
        """
        until = time.monotonic() + COUNT_SECONDS if until is None else until
        with self._lock:
            contexts, shares = list(self._contexts or ()), list(self._shares)
        is_complete = True
        for share in shares:
            is_complete &= share.count_direct_runs(until)
        for context in contexts:
            if context.has_run_channel:
                seconds = until - time.monotonic()
                is_complete &= seconds > 0 and context.count_direct_runs(seconds)
        return is_complete

    def bind(
        self,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure_timing: bool = False,
        loop_timeout_duration_ns: int = -1,
        hints: Hints = NO_HINTS,
        prepares: bool = True,
        state: CarriedState | None = None,
        varies: bool = False,
    ) -> ExecutionContext:
        """Bind the model to memory, and to a ``state`` if it has one: by default a new one of the binding's own.

        A model with open dimensions runs by a plan for those that are bound. If there is none yet, it is prepared now;
        if not ``prepares`` or as long as a device is away, after some runs, which are by the plan for open dimensions.
        If it ``varies``, the dimensions of inputs are the largest, and each run has its own, by the model's own plan.
        ``loop_timeout_duration_ns`` bounds one activation of a WHILE: -1 is the default, and the HAL's maximum holds.
        Raises HalError, UnloadedError among them, or TransportError if a device is gone.
        """
        has_state = bool(self.original.imported.states)
        short = self._short_of_room(inputs, outputs) if varies else ()
        way = None if has_state or varies else self._way_to_dimensions(inputs, outputs)
        planned = way.planned() if way is not None and (prepares or way.is_there) else None
        comes = way is not None and planned is None and (not prepares or way.is_put_off)
        try:
            own = self.new_state() if has_state and state is None else None
            try:
                context = ExecutionContext(
                    planned
                    or PlannedBinding(
                        self._plans,
                        outputs,
                        settled_outputs(self.original),
                        insufficient=way.insufficient if way else short,
                    ),
                    inputs,
                    pools,
                    measure_timing,
                    loop_timeout_duration_ns,
                    hints,
                    self._watcher,
                    way if comes else None,
                    state or own,
                    varies,
                )
            finally:
                if own is not None:
                    own.leave()
        except NnhalError as error:
            self.require_loaded(error)
            raise
        with self._lock:
            if self._contexts is not None:
                self._contexts.add(context)
                return context
        context.close()
        raise UnloadedError

    def new_state(self) -> CarriedState:
        """Return a state for bindings that run one at a time to share. The caller is a user of it, until ``leave``.

        Raises HalError if a device refuses, TransportError if one is gone.
        """
        return CarriedState(self._plans)

    def _short_of_room(
        self, inputs: Sequence[TensorBinding], outputs: Sequence[TensorBinding]
    ) -> Sequence[OutputReport]:
        """The outputs that do not fit their memory if inputs have the dimensions that are bound, as far as the file
        tells.
        """
        declared, opened = self.original.imported, {b.name: b.dimensions for b in inputs if b.dimensions}
        operands, found = declared.model.main.operands, self._outputs_for(opened) if opened else {}
        rooms = {b.name: b.location.length for b in outputs if b.memory is None}
        return [
            OutputReport(tensor.name, dimensions, False)
            for tensor in declared.outputs
            if 0 in operands[tensor.operand].dimensions or not operands[tensor.operand].dimensions
            for dimensions in [found.get(tensor.name, ())]
            if Element(operands[tensor.operand].type, self.original.element_sizes).size(dimensions)
            > rooms.get(tensor.name, MAX_OPERAND_BYTES)
        ]

    def _way_to_dimensions(
        self, inputs: Sequence[TensorBinding], outputs: Sequence[TensorBinding]
    ) -> DimensionedBinding | None:
        store, declared = self._dimensioned, self.original.imported
        dimensions = None if store is None else bound_dimensions(declared, inputs)
        if store is None or dimensions is None:
            return None
        return DimensionedBinding(store, declared, dimensions, outputs)

    def unbind(self, context: ExecutionContext, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Close a context when its run in flight has ended, or takes too long; see ExecutionContext.close."""
        context.close(drain_seconds)
        with self._lock:
            if self._contexts is not None:
                self._contexts.discard(context)

    def _follow(self) -> None:
        """Another plan is in force: have clients that run directly on devices of the last one come back."""
        plan = self.prepared
        self._leave_direct_runs(self._plans)
        if self._replanned is not None:
            left_out = self._plans.left_out if plan is self.original else plan.choice.left_out
            self._replanned([self._plans.in_words(device) for device in left_out])

    def _leave_direct_runs(self, plans: ActivePlan) -> None:
        """End the direct runs of those contexts that follow ``plans`` by another plan than the current one."""
        with self._lock:
            contexts, shares = list(self._contexts or ()), list(self._shares)
        for share in shares:
            share._leave_direct_runs(plans)
        for context in contexts:
            if context.plans is plans:
                context.leave_direct_runs(plans.current)

    @property
    def _all_plans(self) -> list[ActivePlan]:
        own = [self._plans, *(plan.plans for plan in self.dimensioned)]
        return own + [plans for each in list(self._given.values()) if not each.is_share for plans in each._all_plans]

    def close(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Close all contexts and shares, and release the parts. Runs that take longer than that are cancelled.

        Harmless if repeated. The parts of a share belong to its owner and stay.
        """
        self._close(time.monotonic() + drain_seconds)

    def _close(self, until: float) -> None:
        with self._lock:
            contexts, self._contexts = self._contexts, None
            shares, self._shares = self._shares, set()
        if contexts is None:
            return
        for share in shares:
            share._close(until)
        for context in contexts:
            context.unload(max(0.0, until - time.monotonic()))
        if self._owner is None:
            self._plans.close()
            if self._dimensioned is not None:
                self._dimensioned.close()
            return
        with self._owner._lock:
            self._owner._shares.discard(self)
