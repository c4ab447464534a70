"""The rule of a device for an operation, and the walk over a model that asks the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.resolved import ResolvedModel
from nnhal.support import MORE, SUPPORTED, OperationLimit, Support, Unsupported, constants_of, limit_of
from nnhal.types import OperandType, Operation, OperationType
from nnhal.types.layout import Dimensions, combine, is_scalar

Check = Callable[[OperationContext], Support]


def anything(_: OperationContext) -> Support:
    return SUPPORTED


def first_input(_: OperationContext) -> Sequence[int]:
    return (0,)


@dataclass(frozen=True, slots=True)
class SupportRule:
    """The conditions of a device for one operation."""

    types: frozenset[OperandType]
    """Allowed types of the tensors that the device computes with."""

    constants: tuple[int, ...] = ()
    """Inputs that must be constants. All scalars must be constants too."""

    check: Check = anything
    """Checks the rest. It may raise UnknownYet."""

    tensors: Callable[[OperationContext], Sequence[int]] = first_input
    """Returns the inputs that the device computes with."""

    main: int = 0
    """The input whose type decides how the operation is computed."""

    def variable(self, op: OperationContext) -> int | None:
        """Return the first input that must be a constant and is none; None if there is none."""
        for index, operand in enumerate(op.inputs):
            parameter = index in self.constants or is_scalar(operand.type)
            if parameter and op.has(index) and not op.is_known(index):
                return index
        return None

    def limit(self, code: OperationType, *conditions: str) -> OperationLimit:
        """Return the limit of an operation: these conditions, the rule's constants, and that there may be more."""
        more = "" if self.check is anything else MORE
        return limit_of(code, *conditions, constants_of(self.constants), more)


def first_objection(answers: Iterable[Support]) -> Support:
    """Return the first refusal, if any. Answers after it are not evaluated."""
    return next((answer for answer in answers if isinstance(answer, Unsupported)), SUPPORTED)


def walk(
    model: ResolvedModel,
    answer: Callable[[OperationContext, Sequence[Dimensions], str], Support],
    other: Callable[[int, Operation], Support | None],
    hint: str = "",
) -> Iterator[Support]:
    """Yield an answer for each operation of main, in which known dimensions go from operation to operation.

    ``other`` answers for an operation by its number if it has none in ``DEFINITIONS``, or a way of its own; else it
    returns None. ``answer`` gets the dimensions of the outputs, and a word for what is unknown of the inputs if it is
    too little for those. ``hint`` is the advice for operations that are not valid.
    """
    graph = model.model.main
    known = [operand.dimensions for operand in graph.operands]
    for number, operation in enumerate(graph.operations):
        given = other(number, operation)
        if given is not None:
            yield given
            continue
        op = model.context(0, number, known, is_final=True)
        try:
            found = DEFINITIONS[op.type].prepared(op)
        except HalError as error:
            yield Unsupported("OP", error.message, "a valid operation", hint)
            continue
        except UnknownYet as missing:
            yield answer(op, (), str(missing))
            continue
        yield answer(op, found, "")
        for index, dimensions in zip(operation.outputs, found, strict=True):
            known[index] = combine(known[index], dimensions) or known[index]
