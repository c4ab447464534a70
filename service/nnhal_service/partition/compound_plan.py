"""Make a plan in which the framework walks control flow: NNAPI's rule for IF and WHILE that are best on the CPU.

IF is ``IF, then-steps…, GOTO end, else-steps…``, WHILE is ``WHILE, condition-steps…, GOTO WHILE, body-steps…, GOTO
WHILE``. Each reference to a subgraph gets a scope of its own, so that scope and index identify an operand even if a
subgraph is referred to several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal.types import ExecutionPreference, Model, Operation, OperationType
from nnhal.types.layout import Dimensions
from nnhal_service.partition.assign import best_devices
from nnhal_service.partition.candidate import Candidate
from nnhal_service.partition.control_flow import (
    arguments_of,
    as_main,
    has_unknown_size,
    is_control_flow,
    referenced_by,
)
from nnhal_service.partition.grow import dependencies, grow
from nnhal_service.partition.pins import Pin, holding_pins
from nnhal_service.partition.plan import (
    CompoundPlan,
    CompoundStep,
    GotoStep,
    IfStep,
    SourceOperand,
    WhileStep,
)
from nnhal_service.partition.step_model import StepError, StepMaker, whole
from nnhal_service.partition.support import CPU, require_pins

MAX_STEPS = 10_000
"""A limit, since the steps grow exponentially if each of many subgraphs refers to the next one twice."""


def interpret(
    model: Model,
    names: Sequence[Sequence[str]],
    candidates: Sequence[Candidate],
    dimensions: Sequence[Sequence[Dimensions]],
    pins: Sequence[Pin] = (),
    *,
    cpu: str = CPU,
    preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
) -> CompoundPlan:
    """Return the plan by NNAPI's rule. ``dimensions`` are those of the operands of each subgraph, main first.

    Candidates need their refusals for the referenced subgraphs. A pin by name or number applies to main only; pinned
    control flow is not walked. Raises PlacementError if no device takes an operation, StepError if a step cannot be
    made.
    """
    require_pins(model, names, candidates, pins)
    return _Interpretation(model, candidates, dimensions, pins, cpu, preference).plan(names)


class _Interpretation:
    def __init__(
        self,
        model: Model,
        candidates: Sequence[Candidate],
        dimensions: Sequence[Sequence[Dimensions]],
        pins: Sequence[Pin],
        cpu: str,
        preference: ExecutionPreference,
    ) -> None:
        self._model = model
        self._candidates = candidates
        self._dimensions = dimensions
        self._pins = pins
        self._cpu = cpu
        self._preference = preference
        self._order = [candidate.name for candidate in candidates]
        self._interpreter = len(candidates)
        self._steps: list[CompoundStep] = []
        self._scopes: list[int] = []

    def plan(self, names: Sequence[Sequence[str]]) -> CompoundPlan:
        """Return the plan of the whole model."""
        queues = self._queues(self._model, names, self._candidates, self._pins)
        if len(set(queues)) == 1 and queues[0] != self._interpreter:
            return CompoundPlan((whole(self._model, self._order[queues[0]]),), (0,))
        self._scopes.append(0)
        self._grow(self._model, queues, 0)
        return CompoundPlan(tuple(self._steps), tuple(self._scopes))

    def _queues(
        self, model: Model, names: Sequence[Sequence[str]], candidates: Sequence[Candidate], pins: Sequence[Pin]
    ) -> list[int]:
        devices = best_devices(model, names, candidates, pins, self._cpu, self._preference)
        pinned = holding_pins(model, names, pins)
        return [
            self._interpreter
            if device == self._cpu
            and number not in pinned
            and is_control_flow(operation)
            and not has_unknown_size(model, operation)
            else self._order.index(device)
            for number, (operation, device) in enumerate(zip(model.main.operations, devices, strict=True))
        ]

    def _grow(self, model: Model, queues: Sequence[int], scope: int) -> None:
        maker = StepMaker(model, self._dimensions[self._scopes[scope]], scope)
        for queue, operations in grow(dependencies(model.main), queues):
            if queue != self._interpreter:
                self._add(maker.step(self._order[queue], operations))
                continue
            for number in operations:
                walk = self._if if model.main.operations[number].type == OperationType.IF else self._while
                walk(model, number, scope)

    def _add(self, step: CompoundStep) -> int:
        if len(self._steps) == MAX_STEPS:
            raise StepError(f"control flow takes more than {MAX_STEPS} steps")
        self._steps.append(step)
        return len(self._steps) - 1

    def _inside(self, referenced: int) -> int:
        """Add the steps of a referenced subgraph, and return their scope."""
        self._scopes.append(referenced + 1)
        scope = len(self._scopes) - 1
        model = as_main(self._model, referenced)
        operations = range(len(model.main.operations))
        unasked = dict.fromkeys(operations, f"not asked about referenced subgraph {referenced}")
        candidates = [
            replace(c, refusals=c.referenced[referenced] if referenced < len(c.referenced) else unasked)
            for c in self._candidates
        ]
        pins = [pin for pin in self._pins if not pin.is_of_main]
        self._grow(model, self._queues(model, [()] * len(operations), candidates, pins), scope)
        return scope

    def _if(self, model: Model, number: int, scope: int) -> None:
        operation = model.main.operations[number]
        then, otherwise = referenced_by(operation, model.main.operands)
        own = self._add(GotoStep(0))
        then_step = len(self._steps)
        then_scope = self._inside(then)
        leave = self._add(GotoStep(0))
        else_step = len(self._steps)
        else_scope = self._inside(otherwise)
        self._steps[leave] = GotoStep(len(self._steps))
        self._steps[own] = IfStep(
            number,
            SourceOperand(scope, operation.inputs[0]),
            *self._outside(operation, scope),
            then_step,
            *self._border(then_scope),
            else_step,
            *self._border(else_scope),
        )

    def _while(self, model: Model, number: int, scope: int) -> None:
        operation = model.main.operations[number]
        condition, body = referenced_by(operation, model.main.operands)
        own = self._add(GotoStep(0))
        condition_step = len(self._steps)
        condition_inputs, (condition_output,) = self._border(self._inside(condition))
        self._add(GotoStep(own))
        body_step = len(self._steps)
        body_scope = self._inside(body)
        self._add(GotoStep(own))
        self._steps[own] = WhileStep(
            number,
            *self._outside(operation, scope),
            condition_step,
            condition_inputs,
            condition_output,
            body_step,
            *self._border(body_scope),
            len(self._steps),
        )

    def _outside(self, operation: Operation, scope: int) -> tuple[tuple[SourceOperand, ...], tuple[SourceOperand, ...]]:
        """Return the values that control flow passes to its subgraphs, and those that take the results."""
        return (
            tuple(SourceOperand(scope, operand) for operand in arguments_of(operation)),
            tuple(SourceOperand(scope, operand) for operand in operation.outputs),
        )

    def _border(self, scope: int) -> tuple[tuple[SourceOperand, ...], tuple[SourceOperand, ...]]:
        """Return the inputs and outputs of a scope."""
        graph = self._model.referenced[self._scopes[scope] - 1]
        return (
            tuple(SourceOperand(scope, operand) for operand in graph.input_indexes),
            tuple(SourceOperand(scope, operand) for operand in graph.output_indexes),
        )
