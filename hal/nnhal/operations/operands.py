"""Declarations of an operation's operands, from which its signature is checked.

    class SplitInput(Inputs):
        INPUT = tensor({F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4}), "Any rank."
        AXIS = scalar(INT32), "From -rank to rank - 1."

Each member is the position of an input. Types are given with the feature level that introduced them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from nnhal.operations.context import Signature
from nnhal.operations.operand_types import scalar_float
from nnhal.types import OperandType
from nnhal.types.layout import combine, describe

Rank: TypeAlias = int | tuple[int, int] | None
Levels: TypeAlias = dict[OperandType, int]


@dataclass(frozen=True)
class Declaration:
    """The types and ranks that an operand may have."""

    types: Levels | None
    """Allowed types; None for that of the operand that ``like`` names."""
    like: int = 0
    """The input whose type it has."""
    rank: Rank = None
    """The rank, or the lowest and the highest. A scalar has none."""
    optional: bool = False
    """True if it may be NO_VALUE."""
    follows: Callable[[int], OperandType | Levels] | None = None
    """Returns the allowed types for that of input 0, if neither list nor likeness says them."""


def tensor(types: Levels, rank: Rank = None, optional: bool = False) -> Declaration:
    return Declaration(types, rank=rank, optional=optional)


def same(like: int = 0, rank: Rank = None, optional: bool = False) -> Declaration:
    """Declare a tensor of the type that an input has."""
    return Declaration(None, like, rank, optional)


def scalar(type: OperandType, since: int = 1) -> Declaration:  # noqa: A002 - the HAL's own word
    return Declaration({type: since})


def follows(type_for: Callable[[int], OperandType | Levels], rank: Rank = None) -> Declaration:
    """Declare an operand whose type follows from that of input 0."""
    return Declaration(None, rank=rank, follows=type_for)


def parameter() -> Declaration:
    """Declare a float: FLOAT16 if input 0 is of TENSOR_FLOAT16, otherwise FLOAT32."""
    return follows(scalar_float)


class Inputs(IntEnum):
    """The inputs of an operation by their positions, each with its declaration and a sentence about it."""

    declaration: Declaration

    def __new__(cls, declaration: Declaration, about: str = "") -> Inputs:
        member = int.__new__(cls, len(cls.__members__))
        member._value_, member.declaration, member.__doc__ = len(cls.__members__), declaration, about
        return member


def signature(
    inputs: type[Inputs],
    *outputs: Declaration,
    fewest: int | None = None,
    count: int | None = None,
    many: bool = False,
    types: Levels | None = None,
    rank: Rank = None,
    further: Sequence[Callable[[Signature], None]] = (),
) -> Callable[[Signature], None]:
    """Return the check of an operation's operands. Inputs from ``fewest`` on may be left out at the end.

    With ``count`` it has only so many of the inputs; ``types`` and ``rank`` are those of input 0. Both are for
    operations that share their inputs. With ``many`` there are one output or more, all as the first. ``further``
    checks what declarations do not say.
    """
    declared = [member.declaration for member in inputs][:count]
    if types is not None:
        declared[0] = tensor(types, rank or declared[0].rank)
    counts = tuple(range(len(declared) if fewest is None else fewest, len(declared) + 1))

    def validate(op: Signature) -> None:
        results = outputs * max(1, len(op.outputs)) if many else outputs
        given = op.count(counts, len(results), names=inputs)
        for index, each in enumerate(declared[:given]):
            op.tensor(index, _types(op, each), each.rank, each.optional)
        for index, each in enumerate(results):
            op.output(index, _types(op, each), each.rank)
        for check in further:
            check(op)

    return validate


def _types(op: Signature, declared: Declaration) -> Levels:
    if declared.types is not None:
        return declared.types
    if declared.follows is not None:
        found = declared.follows(op.inputs[0].type)
        return found if isinstance(found, dict) else {found: 1}
    return {OperandType(op.inputs[declared.like].type): 1}


def newer_ranks(*ranks: int) -> Callable[[Signature], None]:
    """Return a check that notes feature level 3, unless input 0 has one of these ranks."""

    def note(op: Signature) -> None:
        if len(op.inputs[0].dimensions) not in ranks:
            op.since(3)

    return note


def newer_zero_point(op: Signature) -> None:
    """Note feature level 3 if input 0 is of TENSOR_QUANT8_ASYMM with a zero point other than 0."""
    if op.inputs[0].type == OperandType.TENSOR_QUANT8_ASYMM and op.inputs[0].zero_point:
        op.since(3)


def equal_dimensions(op: Signature) -> None:
    """Refuse an output whose dimensions contradict those of input 0."""
    given, result = op.inputs[0].dimensions, op.outputs[0].dimensions
    if combine(given, result) is None:
        op.context.refuse(
            f"input and output have dimensions {describe(given)} and {describe(result)}, expected equal ones"
        )


def equal_quantization(op: Signature) -> None:
    """Refuse an output that is quantised otherwise than input 0."""
    op.same_quantization(op.inputs[0], op.outputs[0], "input and output")
