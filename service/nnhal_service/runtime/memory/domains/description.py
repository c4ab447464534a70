"""The description of memory: its roles in loaded models, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nnhal.errors import invalid_argument
from nnhal.extensions import size_in_bytes
from nnhal.types import Operand
from nnhal.types.layout import Dimensions, combine, describe, fully_specified, is_extension
from nnhal.validation.roles import DeclaredRole, require_like, type_name, validate_roles
from nnhal_service.partition import CompoundStep, IfStep, SourceOperand, Step, WhileStep
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan


@dataclass(frozen=True, slots=True, eq=False)
class ModelRole:
    """One use of memory: an input or output of a loaded model. ``probability``, above 0 and at most 1, is a hint.

    Those of the model's states have the indexes behind the user's own.
    """

    prepared: PreparedPlan
    is_output: bool
    index: int
    probability: float = 1.0

    def __str__(self) -> str:
        return f"{'output' if self.is_output else 'input'} {self.index}"

    @property
    def identity(self) -> tuple[int, bool, int]:
        """Equal for the same use of the same loaded model."""
        return self.prepared.network, self.is_output, self.index

    @property
    def number(self) -> int:
        """The operand's index in the main subgraph. Raises INVALID_ARGUMENT if the model has no such tensor."""
        imported = self.prepared.imported
        tensors = imported.all_outputs if self.is_output else imported.all_inputs
        if not 0 <= self.index < len(tensors):
            invalid_argument(f"a role of {self}, the model has {len(tensors)}")
        return tensors[self.index].operand

    @property
    def operand(self) -> Operand:
        """The operand. Raises as ``number`` does."""
        return self.prepared.imported.model.main.operands[self.number]

    @property
    def dimensions(self) -> Dimensions:
        """The operand's dimensions, 0 for an unknown extent. Raises as ``number`` does."""
        return self.prepared.dimensions[self.number]

    @property
    def declared(self) -> DeclaredRole:
        """The role for the contract's rules. Raises as ``number`` does."""
        named = type_name(self.operand, self.prepared.imported.model)
        return DeclaredRole(str(self), self.identity, self.operand, self.dimensions, named, self.probability)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryDescription:
    """Roles that agree. ``dimensions`` follow from all of them: 0 for an unknown extent, empty for an unknown rank."""

    roles: tuple[ModelRole, ...]
    dimensions: Dimensions

    @classmethod
    def of(cls, roles: Sequence[ModelRole], dimensions: Dimensions = ()) -> MemoryDescription:
        """Check the roles, and ``dimensions`` that narrow their operands'. Raises INVALID_ARGUMENT."""
        return cls(tuple(roles), validate_roles([role.declared for role in roles], dimensions))

    @property
    def byte_size(self) -> int:
        """Bytes of a value; 0 if unknown."""
        return self.size_of(self.dimensions)

    def size_of(self, dimensions: Dimensions) -> int:
        """Bytes of a value of these dimensions; 0 if one is unknown."""
        role = self.roles[0]
        return size_in_bytes(role.operand.type, dimensions, role.prepared.element_sizes)

    def is_fixed(self, dimensions: Dimensions) -> bool:
        code = self.roles[0].operand.type
        return fully_specified(code, dimensions) if not is_extension(code) else bool(dimensions) and 0 not in dimensions

    def require_role(self, prepared: PreparedPlan, is_output: bool, index: int, dimensions: Dimensions = ()) -> None:
        """Raise INVALID_ARGUMENT if the memory was not allocated for that use, or cannot have these dimensions."""
        asked = ModelRole(prepared, is_output, index)
        if asked.identity not in {role.identity for role in self.roles}:
            invalid_argument(f"the memory was not allocated for {asked} of this model")
        if combine(self.dimensions, dimensions) is None:
            invalid_argument(
                f"{asked} is bound with dimensions {describe(dimensions)}, its memory has {describe(self.dimensions)}"
            )

    def require_like(self, other: MemoryDescription) -> None:
        """Raise INVALID_ARGUMENT if values of memory with the other description do not fit memory with this one."""
        require_like(other.roles[0].declared, self.roles[0].declared)


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
