"""The state of a sequence of runs: values that lie on a device, and go from run to run without being copied."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnhal.errors import HalError, NnhalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.tensors import stored_type
from nnhal.types import ErrorStatus, Memory
from nnhal_frontends.imported import ImportedState
from nnhal_service.runtime.memory.bindings import TensorBinding
from nnhal_service.runtime.memory.domains import AllocatedMemory, ModelRole, allocate
from nnhal_service.runtime.plan.active_plan import ActivePlan
from nnhal_service.runtime.plan.parts import Parts
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan

_initial: weakref.WeakKeyDictionary[Parts, Sequence[Memory | None]] = weakref.WeakKeyDictionary()
"""The initial values of plans, by their parts."""


class StateLostError(HalError):
    """GENERAL_FAILURE: a device has died, and the state of a model with it. It is said once."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.lost_with = " and ".join(sorted({device for device in devices if device})) or "a device"
        super().__init__(
            ErrorStatus.GENERAL_FAILURE,
            f"the state of the model was lost with {self.lost_with}; the next run begins with its initial values",
        )


class _Value(NamedTuple):
    """A value of the state, in two buffers: a run reads one, and writes the other."""

    state: ImportedState
    buffers: tuple[AllocatedMemory, AllocatedMemory]


class CarriedState:
    """The state of one sequence of runs, for bindings of one model that run one at a time.

    A run that succeeds has the two buffers of each value change their roles. One that fails leaves the state as it was,
    since inputs are never modified. What dies with a device is lost.
    """

    def __init__(self, plans: ActivePlan) -> None:
        """Allocate it for the plan in force, to which it keeps. Raises HalError, or TransportError if a device is gone.

        It has one user, until ``leave``.
        """
        self._plans = plans
        self.prepared: PreparedPlan = plans.hold()
        self._output_names = frozenset(state.after.name for state in self.prepared.imported.states)
        self.turn = 0
        """Which of the two buffers the next run reads."""
        self._lock = threading.Lock()
        self._users = 1
        self._has_values = False
        self._values: list[_Value] = []
        self._initial: Sequence[Memory | None] = ()
        try:
            self._allocate()
        except BaseException:
            self.leave()
            raise

    @property
    def is_current(self) -> bool:
        """Return whether the plan that it keeps to is still in force."""
        return self.prepared is self._plans.current

    @property
    def is_ready(self) -> bool:
        """Return whether a run can read it: ``require`` would do nothing."""
        return self._has_values and self._lost_devices() is None

    @property
    def output_names(self) -> frozenset[str]:
        return self._output_names

    def inputs(self, turn: int) -> list[TensorBinding]:
        return [TensorBinding(v.state.before.name, memory=v.buffers[turn]) for v in self._values]

    def outputs(self, turn: int) -> list[TensorBinding]:
        return [TensorBinding(v.state.after.name, memory=v.buffers[1 - turn]) for v in self._values]

    def require(self) -> None:
        """Have values for a run: the initial ones at the beginning.

        Raises StateLostError if they are lost, once; TransportError while the device is gone.
        """
        if self._has_values:
            lost = self._lost_devices()
            if lost is None:
                return
            self._has_values = False
            raise StateLostError(lost)
        self.reset()

    def require_kept(self, error: NnhalError) -> None:
        """Raise StateLostError if the values are lost, as ``error`` of a run may have said in other words."""
        lost = self._lost_devices() if self._has_values else None
        if lost is not None:
            self._has_values = False
            raise StateLostError(lost) from error

    def advance(self) -> None:
        """Note that a run has succeeded: the next one reads what it wrote."""
        self.turn = 1 - self.turn

    def take_turn(self, turn: int) -> None:
        """Go over to the turn that its client has come to by direct runs: what the last of them wrote is read next."""
        self.turn = turn

    def reset(self, both: bool = False) -> None:
        """Have the next run begin with the initial values; if ``both``, one of either turn.

        Raises HalError, TransportError if a device is gone.
        """
        self._has_values = False
        if not self._initial:
            self._initial = _initial_memories(self.prepared)
        for value, initial in zip(self._values, self._initial, strict=True):
            for memory in value.buffers if both else (value.buffers[self.turn],):
                if initial is None:
                    memory.become_empty(value.state.initial.shape)
                else:
                    memory.copy_from(initial, value.state.initial.shape)
        self._has_values = True

    def forget(self) -> None:
        """Have the next run begin with the initial values, which are copied when it begins."""
        self._has_values = False

    def use(self) -> None:
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Take a user away; without any the buffers are released."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        for value in self._values:
            for memory in value.buffers:
                memory.close()
        self._plans.drop(self.prepared)

    def _allocate(self) -> None:
        imported = self.prepared.imported
        for number, state in enumerate(imported.states):
            roles = [
                ModelRole(self.prepared, False, len(imported.inputs) + number),
                ModelRole(self.prepared, True, len(imported.outputs) + number),
            ]
            first = allocate(roles, largest=state.largest, is_passed=True)
            try:
                self._values.append(_Value(state, (first, allocate(roles, largest=state.largest, is_passed=True))))
            except BaseException:
                first.close()
                raise

    def _lost_devices(self) -> list[str] | None:
        """The devices with which values were lost; None if all are there."""
        held = [value.buffers[self.turn] for value in self._values]
        lost = [memory.device for memory in held if memory.is_lost or not memory.is_initialised]
        return lost or None


def _initial_memories(prepared: PreparedPlan) -> Sequence[Memory | None]:
    """The initial values of a model's states: all sequences copy them from the same memory."""
    known = _initial.get(prepared.parts)
    if known is None:
        known = tuple(_initial_memory(prepared, state) for state in prepared.imported.states)
        _initial[prepared.parts] = known
    return known


def _initial_memory(prepared: PreparedPlan, state: ImportedState) -> Memory | None:
    """The initial value; None if it is empty."""
    if not state.initial.size:
        return None
    code = prepared.imported.model.main.operands[state.before.operand].type
    stored = np.ascontiguousarray(state.initial, stored_type(code, state.before.element_type))
    memory = create_ashmem(stored.nbytes, "nnhal-state")
    open_pool(memory, writable=True).write(0, stored.reshape(-1).view(np.uint8))
    return memory
