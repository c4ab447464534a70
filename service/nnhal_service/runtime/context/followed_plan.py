"""Memory that a context has bound, by the plan that it follows: the one in force, one for its dimensions, or that of
its state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from nnhal.errors import NnhalError, TransportError
from nnhal.remote import RemotePreparedModel
from nnhal.types import ExecutionConfig, Memory
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.context.dimensioned_binding import DimensionedBinding, PlannedBinding
from nnhal_service.runtime.devices.hangs import AwaitedDevice, WaitingBind
from nnhal_service.runtime.memory.bindings import Bindings, TensorBinding, UsedMemory, bindings_of
from nnhal_service.runtime.memory.state import CarriedState
from nnhal_service.runtime.plan.active_plan import ActivePlan
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.run.bound_plan import BoundPlan
from nnhal_service.runtime.run.engine import FINAL_ERRORS
from nnhal_service.runtime.run.reports import TouchedMemoryError
from nnhal_service.runtime.run.run_channel import DirectPath

PATIENCE_SECONDS = 5.0
"""The time that a run that meets dead devices is tried again."""
_LOOK_SECONDS = 0.02
"""Seconds between two checks whether a device is back that every plan needs."""
_never = threading.Event()
_log = get_logger(__name__)


class ClientBinding(NamedTuple):
    """Memory that a client has bound whatever the plan, and its options of runs."""

    inputs: Sequence[TensorBinding]
    pools: Sequence[Memory]
    config: ExecutionConfig
    released: Callable[[], None]
    """Called before executions are released."""
    varies: bool = False
    """True if each run has lengths of its own."""


class _Turn(NamedTuple):
    """A plan that is bound; for a model with a state, for one of its two turns."""

    bindings: Bindings
    bound: BoundPlan
    used: UsedMemory


class FollowedPlan:
    """The plan by which a context runs, bound to its memory. Used by the run in flight of the context only.

    After re-planning, the next run is by the new plan, in the same memory of the client. What is bound to memory of a
    domain stays with the plan that the model was loaded with, since that memory was allocated for it.
    """

    def __init__(
        self,
        planned: PlannedBinding,
        binding: ClientBinding,
        way: DimensionedBinding | None = None,
        state: CarriedState | None = None,
    ) -> None:
        """``way`` finds a plan for the dimensions that are bound. ``state`` is the state of a model that has one.

        Raises HalError if the bindings are not valid or a device refuses, TransportError if one is gone.
        """
        self._binding, self._way = binding, way
        self._writers: list[RemotePreparedModel] = []
        self.planned = planned
        """What is bound by the plans that it follows."""
        self.state = state
        memories = [b.memory for b in (*binding.inputs, *planned.outputs) if b.memory is not None]
        self.stays = state is not None or bool(memories)
        """True if it keeps to its plan whatever is planned."""
        self.has_only_state = state is not None and not memories
        """True if all memory of domains that it uses is its state."""
        self._may_be_direct = all(memory.device for memory in memories)
        """True if devices know of all memory that a client has allocated what it holds."""
        self._declined: PreparedPlan | None = None
        self._direct_plan: PreparedPlan | None = None
        try:
            for memory in memories:
                memory.require_alive()
            self._turns = self._turns_of(state) if state is not None else ()
            turn = self._turns[0] if self._turns else self._bind_to(planned, planned.plans.hold(self.stays))
        except BaseException:
            planned.ended()
            raise
        self.bindings, self.bound, self.used = turn
        if state is not None:
            state.use()

    @property
    def plans(self) -> ActivePlan:
        return self.planned.plans

    @property
    def prepared(self) -> PreparedPlan:
        """The plan of the last run, or of the next one before the first."""
        return self.bound.prepared

    @property
    def direct_plan(self) -> PreparedPlan:
        """The plan behind the latest run channel; that of the last run if there was no channel."""
        return self._direct_plan or self.prepared

    @property
    def lengths(self) -> Mapping[int, int]:
        """Bytes of the values that have memory of their own, by operand."""
        return self.bound.lengths()

    @property
    def items(self) -> int:
        """The length of the first input's first axis; 1 if it has none."""
        for tensor in self.bound.prepared.imported.inputs[:1]:
            return (*self.bound.dimensions[tensor.operand], 1)[0] or 1
        return 1

    @property
    def starts_at_once(self) -> bool:
        """Return whether the next run needs nothing but what is bound: it is by a plan that has run, and memory of
        domains is as the run needs it, if there is no other than a state.
        """
        way, state, prepared, plans = self._way, self.state, self.bound.prepared, self.planned.plans
        if (way is not None and way.is_ready) or not prepared.parts.has_run:
            return False
        if (plans.may_change or plans.current is not prepared) and not self.is_current:
            return False
        return state.is_ready if state is not None and self.has_only_state else self.used.is_empty

    @property
    def is_current(self) -> bool:
        """Return whether what is bound is to run: it is the plan in force, or there is a reason to stay with it."""
        plans = self.planned.plans
        if plans.may_change:
            plans.look()
        current = plans.current
        return current is self.bound.prepared or self.stays or current is self._declined

    def take_turn(self, turn: int | None = None) -> None:
        """Go over to what is bound for the turn of the state, if there is one: for ``turn`` if a client says it."""
        if self.state is not None:
            if turn is not None:
                self.state.take_turn(turn)
            self.bindings, self.bound, self.used = self._turns[self.state.turn]

    def follow(self) -> None:
        """Go over to the plan for the dimensions that are bound if there is one by now, and to the plan in force."""
        if self._way is not None and self._way.is_ready:
            self._take(self._way)
        if not self.is_current:
            self._follow()

    def follow_after(self, error: NnhalError, until: float, planning_until: float) -> bool:
        """Bind the plan in force after a run has failed, and return whether the run may succeed if it is tried again.

        The CPU makes up for any other device that dies in a run; for the CPU itself only a plan without it can. If
        there is none, its return is waited for, ``until`` an instant of ``time.monotonic`` at most, and a plan that is
        being prepared ``planning_until`` one. A run that was lost with it is tried again once it is back, though the
        plan's steps on it are not prepared again yet.
        """
        failed, plans = self.bound.prepared, self.plans
        is_lost = isinstance(error, TransportError)
        if self.stays or not failed.parts.may_fall_back:
            return False
        if isinstance(error, TouchedMemoryError):
            return self._wait_for_writers(until)
        if isinstance(error, FINAL_ERRORS):
            return False
        if not plans.missing and not is_lost:
            return False
        while True:
            plans.settle(max(0.0, planning_until - time.monotonic()))
            if not self.is_current:
                self._follow()
            if self.bound.prepared is not failed:
                return True
            if time.monotonic() > until:
                _log.warning("a run is lost: no plan does without all that is gone", missing=sorted(plans.missing))
                return False
            if not failed.gone or failed.planner.is_there(failed.parts.fallback_device):  # all are back, or the CPU is
                return is_lost
            _never.wait(_LOOK_SECONDS)
            plans.look(again=True)

    def _wait_for_writers(self, until: float) -> bool:
        """Wait until each device that was given up has ended or was killed: then it writes to the outputs no more."""
        while any(writer.is_asleep for writer in self._writers):
            if time.monotonic() > until:
                return False
            _never.wait(_LOOK_SECONDS)
        return True

    def direct_paths(self, takes_turns: bool) -> Sequence[DirectPath]:
        """The steps as a client may run them itself, for each turn of a state; none if a run is more than its steps.

        None too if outputs are of unknown sizes and a plan for the dimensions of the inputs may tell them: only runs
        through the framework come to that, and if allocated memory is on the host, of which nobody would know whether
        it holds values. Those of a state only if the client ``takes_turns``. Raises as binding does.
        """
        if not self._may_be_direct or (self.state is not None and not takes_turns):
            return ()
        if self._way is not None and not self.bound.has_known_outputs:
            return ()
        if self.state is not None:
            self.state.require()
        turns = self._turns or (_Turn(self.bindings, self.bound, self.used),)
        paths = [path for path in (turn.bound.direct_path() for turn in turns) if path is not None]
        if len(paths) < len(turns):
            return ()
        for turn in turns:
            turn.used.lend()
        self._direct_plan = self.bound.prepared
        return paths

    def close(self) -> None:
        """Release the executions, and the holds of the plan and the state. No run may be in flight."""
        for bound in [turn.bound for turn in self._turns] or [self.bound]:
            bound.close()
            self.plans.drop(bound.prepared)
        if self.state is not None:
            self.state.leave()
        self.planned.ended()

    def _follow(self) -> None:
        """Bind the plan in force in place of the last one, which stays bound if that fails."""
        before, plan = self.bound, self.plans.hold()
        try:
            self.bindings, self.bound, self.used = self._bind_to(self.planned, plan)
        except (NnhalError, OSError) as error:
            _log.warning("a binding stays with its last plan", reason=str(error))
            self._declined = plan
            return
        before.close()
        self.plans.drop(before.prepared)

    def _take(self, way: DimensionedBinding) -> None:
        """Go over to the plan for the dimensions that are bound; the plan in force stays bound if that fails."""
        self._way = None
        planned, before, bound = way.planned(), self.planned, self.bound
        if planned is None:
            return
        try:
            self.bindings, self.bound, self.used = self._bind_to(planned, planned.plans.hold())
        except (NnhalError, OSError) as error:
            _log.info("a binding does not take the plan for its dimensions", reason=str(error))
            planned.ended()
            return
        self.planned = planned
        self._binding.released()
        bound.close()
        before.plans.drop(bound.prepared)
        before.ended()

    def _turns_of(self, state: CarriedState) -> tuple[_Turn, ...]:
        """Return what is bound for the two turns of a state, in which its buffers have changed their roles."""
        turns: list[_Turn] = []
        try:
            for number in range(2):
                self.plans.hold_too(state.prepared)
                turns.append(self._bind_to(self.planned, state.prepared, state, number))
        except BaseException:
            for turn in turns:
                turn.bound.close()
                self.plans.drop(turn.bound.prepared)
            raise
        return tuple(turns)

    def _bind_to(
        self, planned: PlannedBinding, plan: PreparedPlan, state: CarriedState | None = None, turn: int = 0
    ) -> _Turn:
        """Bind a plan that the caller holds; the hold passes on to what is returned."""
        try:
            bindings = self._bindings_by(planned, plan, state, turn)
            waiting = WaitingBind(AwaitedDevice(m.name, m.remote, may_be_busy=True) for m in plan.parts.members)
            for member in plan.parts.members:
                member.hangs.add(waiting)
            bound = BoundPlan(plan, bindings)
            del waiting  # nothing is asked any more
        except BaseException:
            planned.plans.drop(plan)
            raise
        return _Turn(bindings, bound, UsedMemory(bindings.inputs, bindings.outputs, bound.dimensions))

    def _bindings_by(
        self, planned: PlannedBinding, plan: PreparedPlan, state: CarriedState | None, turn: int
    ) -> Bindings:
        """Return what is bound, by the operands of a plan. Raises INVALID_ARGUMENT unless each tensor is bound once."""
        imported, client = plan.imported, self._binding
        inputs = bindings_of(imported.inputs, client.inputs, "input")
        outputs = bindings_of(imported.outputs, planned.outputs, "output")
        if state is not None:
            inputs = {**inputs, **bindings_of([s.before for s in imported.states], state.inputs(turn), "state")}
            outputs = {**outputs, **bindings_of([s.after for s in imported.states], state.outputs(turn), "state")}
        missed = partial(_missed, planned.plans, plan, self.stays)
        return Bindings(
            inputs, outputs, client.pools, client.config, missed, client.released, client.varies, self._writers
        )


def _missed(plans: ActivePlan, bound: PreparedPlan, stays: bool, devices: Collection[str]) -> bool:
    """Note that devices are gone. Returns whether a run should be tried again by another plan."""
    plans.miss(devices)
    return not stays and plans.current is not bound
