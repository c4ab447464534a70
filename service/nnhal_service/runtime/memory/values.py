"""The values of one context: the slot of each operand of a plan, as control flow passes values on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nnhal.types import OperandLifeTime
from nnhal.types.layout import Dimensions
from nnhal_service.partition import SourceOperand
from nnhal_service.runtime.memory.resident_slot import ResidentSlot
from nnhal_service.runtime.memory.slots import Element, GrowingSlot, OmittedSlot, Slot
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan

_CONSTANT = (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)


class Values:
    """``bound`` are the slots of operands of main that have memory: the client's, those in an arena, and kept ones.

    ``dimensions`` are those of all operands of main. The other slots are made when they are first asked for, and keep
    their memory from one run to the next.
    """

    def __init__(self, prepared: PreparedPlan, dimensions: Sequence[Dimensions], bound: Mapping[int, Slot]) -> None:
        walk = prepared.plan.walk
        self._graphs = prepared.graphs
        self._dimensions = (dimensions, *prepared.survey.task.referenced)
        self._scopes = (0,) if walk is None else walk.scopes
        self._constants = prepared.survey.constants
        self._element_sizes = prepared.element_sizes
        self._carried = prepared.plan.carried
        self._bound = bound
        self._kept = [slot for slot in bound.values() if isinstance(slot, ResidentSlot)]
        self._own: dict[SourceOperand, Slot] = {}
        self._turns: dict[tuple[int, SourceOperand], Slot] = {}
        self._handed_on: dict[SourceOperand, Slot] = {}

    def reset(self) -> None:
        """Begin a run: no value has been passed on yet, and none of those that devices keep is elsewhere."""
        self._handed_on.clear()
        for slot in self._kept:
            slot.forget()

    def slot(self, operand: SourceOperand) -> Slot:
        found = self._handed_on.get(operand)
        if found is None and operand.scope == 0:
            found = self._bound.get(operand.operand)
        if found is None:
            found = self._own.get(operand)
        if found is None:
            found = self._own[operand] = self._make(operand)
        return found

    def slots(self, operands: Sequence[SourceOperand]) -> list[Slot]:
        return [self.slot(operand) for operand in operands]

    def hand_on(self, slots: Sequence[Slot], operands: Sequence[SourceOperand]) -> None:
        """Pass values of an outer scope on to operands of an inner one, which then share their slots."""
        self._handed_on.update(zip(operands, slots, strict=True))

    def turns(self, operands: Sequence[SourceOperand], number: int) -> list[Slot]:
        """Slots for the outputs of a loop's body, in two sets: a round reads what the round before has written."""
        keys = [(number % 2, operand) for operand in operands]
        for key in keys:
            if key not in self._turns:
                self._turns[key] = self._make(key[1])
        return [self._turns[key] for key in keys]

    def _make(self, operand: SourceOperand) -> Slot:
        subgraph, index = self._scopes[operand.scope], operand.operand
        declared = self._graphs[subgraph].operands[index]
        code = declared.type if operand.scope else self._carried.get(index, declared.type)
        element = Element(code, self._element_sizes)
        if declared.lifetime == OperandLifeTime.NO_VALUE:
            return OmittedSlot(element, ())
        if declared.lifetime not in _CONSTANT:
            return GrowingSlot(element, self._dimensions[subgraph][index])
        slot = GrowingSlot(element, declared.dimensions)
        value = np.ascontiguousarray(self._constants[subgraph][index])
        slot.store(value.reshape(-1).view(np.uint8), declared.dimensions)
        return slot
