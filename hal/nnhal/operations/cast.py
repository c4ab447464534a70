"""CAST: the stored numbers in another element type, regardless of scale and zero point."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS, Q8S, Q16A, Q16S
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, combine, describe

_CONVERTIBLE = {F16: 3, F32: 3, I32: 3, Q8A: 3}
_IDENTITY_ONLY = {B8: 4, Q8AS: 4, Q8S: 4, Q16A: 4, Q16S: 4}


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any dimensions."""


def validate(op: Signature) -> None:
    """Require one of four types that convert to each other, or of five that convert to themselves only."""
    op.count(1, names=Input)
    main = op.tensor(Input.INPUT, _CONVERTIBLE | _IDENTITY_ONLY)
    op.output(0, _CONVERTIBLE if main in _CONVERTIBLE else main)
    given, result = op.inputs[Input.INPUT].dimensions, op.outputs[0].dimensions
    if combine(given, result) is None:
        op.context.refuse(
            f"input and output have dimensions {describe(given)} and {describe(result)}, expected equal ones"
        )


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(Input.INPUT),)


CAST = OperationDefinition(OperationType.CAST, 3, validate, prepare)
