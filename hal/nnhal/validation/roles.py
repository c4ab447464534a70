"""Rules about the roles of memory, the same for a device's buffer and for the memory of whole models.

They are contract rows MD-06 to MD-15. The caller finds the operand that a role refers to.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from nnhal.errors import invalid_argument
from nnhal.extensions import type_in_words
from nnhal.types import Model, Operand, OperandType
from nnhal.types.layout import MAX_RANK, Dimensions, combine, describe, is_extension, is_scalar


@dataclass(frozen=True, slots=True)
class DeclaredRole:
    """An input or output of a model, for which memory is allocated."""

    name: str
    """How messages name it."""
    identity: Hashable
    """Equal for the same input or output of the very same model."""
    operand: Operand
    dimensions: Dimensions
    """The operand's, as far as they are known."""
    type_name: str
    """See ``type_name`` below."""
    probability: float


def validate_roles(roles: Sequence[DeclaredRole], dimensions: Dimensions) -> Dimensions:
    """Check roles, and ``dimensions`` that narrow their operands'. Return the dimensions of the memory.

    Raises INVALID_ARGUMENT.
    """
    if not roles:
        invalid_argument("memory without a role, expected at least one")
    if len(dimensions) > MAX_RANK:
        invalid_argument(f"dimensions of rank {len(dimensions)}, expected at most {MAX_RANK}")
    if min(dimensions, default=0) < 0:
        invalid_argument(f"dimensions {list(dimensions)}, expected none below 0")
    first = roles[0]
    if is_scalar(first.operand.type) and dimensions:
        invalid_argument(f"dimensions {describe(dimensions)} for memory of a scalar")
    seen = set()
    combined = dimensions
    for role in roles:
        if role.identity in seen:
            invalid_argument(f"{role.name} is given twice for the same model")
        seen.add(role.identity)
        if not 0 < role.probability <= 1:
            invalid_argument(f"{role.name} has probability {role.probability}, expected above 0 and at most 1")
        require_like(role, first)
        merged = combine(combined, role.dimensions)
        if merged is None:
            invalid_argument(
                f"{role.name} has dimensions {describe(role.dimensions)}, the memory would have {describe(combined)}"
            )
        combined = merged
    return combined


def require_like(role: DeclaredRole, first: DeclaredRole) -> None:
    """Raise INVALID_ARGUMENT if the values of two roles differ in type or quantisation."""
    if role.type_name != first.type_name:
        invalid_argument(f"{role.name} has type {role.type_name}, the memory's first role has {first.type_name}")
    if is_extension(role.operand.type):
        return
    for field in ("scale", "zero_point", "extra_params"):
        got, expected = getattr(role.operand, field), getattr(first.operand, field)
        if got != expected:
            invalid_argument(f"{role.name} has {field} {got}, the memory's first role has {expected}")


def type_name(operand: Operand, model: Model) -> str:
    """The operand type by name, since models may give one extension different prefixes."""
    if not is_extension(operand.type):
        return OperandType(operand.type).name
    return type_in_words(model, operand.type)
