"""MIRROR_PAD: a tensor padded by its own reflection."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any rank."""
    PADDINGS = 1
    """[rank, 2]: before and after each axis."""
    MODE = 2
    """0 reflect, 1 symmetric, which repeats the edge."""


class MirrorPadMode(IntEnum):
    """Whether the reflection repeats the edge (SYMMETRIC) or not (REFLECT)."""

    REFLECT = 0
    SYMMETRIC = 1


def validate(op: Signature) -> None:
    """Require a tensor, two paddings for each axis, and the mode. The output has the input's rank and quantisation."""
    op.count(3, names=Input)
    main = op.tensor(Input.INPUT, {F16: 7, F32: 7, I32: 7, Q8A: 7, Q8AS: 7})
    op.tensor(Input.PADDINGS, {I32: 1}, rank=2)
    op.scalar(Input.MODE, INT32)
    rank = len(op.inputs[Input.INPUT].dimensions)
    op.output(0, main, rank or None)
    op.same_quantization(op.inputs[Input.INPUT], op.outputs[0], "input and output")


def paddings(op: OperationContext) -> list[tuple[int, int]]:
    """Return the elements to pad before and after each axis."""
    rank, shape = len(op.ranked(Input.INPUT)), op.ranked(Input.PADDINGS)
    if shape != (rank, 2):
        op.refuse(f"paddings have dimensions {list(shape)}, expected [{rank}, 2]")
    flat = op.integers(Input.PADDINGS)
    return list(zip(flat[::2], flat[1::2], strict=True))


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions with the paddings added, which must not exceed the elements to reflect."""
    code = op.integer(Input.MODE)
    if code not in (MirrorPadMode.REFLECT, MirrorPadMode.SYMMETRIC):
        op.refuse(f"mode {code}, expected 0 (REFLECT) or 1 (SYMMETRIC)")
    result = []
    for axis, (length, pair) in enumerate(zip(op.known_dimensions(Input.INPUT), paddings(op), strict=True)):
        limit = max(0, length - 1) if code == MirrorPadMode.REFLECT else length
        if min(pair) < 0 or max(pair) > limit:
            op.refuse(f"paddings {pair} on axis {axis}, expected 0 to {limit}")
        result.append(length + sum(pair))
    return (tuple(result),)


MIRROR_PAD = OperationDefinition(OperationType.MIRROR_PAD, 7, validate, prepare)
