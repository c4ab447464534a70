"""Which steps of a plan use an operand, and as what: what memory for it has to be good for.

Where the runtime walks control flow itself, values are handed in and out without a copy wherever that can be, so that
memory outside a subgraph has the roles of what it stands for inside. A value that only the walk itself looks at, the
condition of an IF or the result of a WHILE, has no role in any step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nnhal_service.partition import CompoundStep, IfStep, SourceOperand, Step, WhileStep


@dataclass(frozen=True, slots=True, order=True)
class StepRole:
    """An input or output of a step's model. ``step`` is its number among the steps that devices run."""

    step: int
    is_output: bool
    index: int


def step_roles(steps: Sequence[CompoundStep]) -> Mapping[SourceOperand, frozenset[StepRole]]:
    """The roles of every operand that has any, main being scope 0."""
    roles: dict[SourceOperand, frozenset[StepRole]] = {}

    def add(operand: SourceOperand, further: Iterable[StepRole]) -> None:
        roles[operand] = roles.get(operand, frozenset()).union(further)

    def add_those_of(outer: Sequence[SourceOperand], inner: Sequence[SourceOperand]) -> None:
        for operand, stands_for in zip(outer, inner, strict=False):
            add(operand, roles.get(stands_for, ()))

    for number, executable in enumerate(step for step in steps if isinstance(step, Step)):
        for is_output, operands in ((False, executable.inputs), (True, executable.outputs)):
            for index, operand in enumerate(operands):
                add(SourceOperand(executable.scope, operand), [StepRole(number, is_output, index)])
    for step in reversed(steps):  # control flow comes before what is inside
        if isinstance(step, IfStep):
            for inputs, outputs in ((step.then_inputs, step.then_outputs), (step.else_inputs, step.else_outputs)):
                add_those_of(step.inputs, inputs)
                add_those_of(step.outputs, outputs)
        elif isinstance(step, WhileStep):
            for inputs in (step.condition_inputs, step.body_inputs):
                add_those_of(step.inputs, inputs)
                add_those_of(step.body_outputs, inputs)  # the next round's first inputs
    return {operand: found for operand, found in roles.items() if found}
