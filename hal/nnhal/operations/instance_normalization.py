"""INSTANCE_NORMALIZATION: each channel of each image is normalised to a given mean and deviation.

(x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and variance over the pixels
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import BOOL, F16, F32, scalar_float
from nnhal.operations._window import images_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Images."""
    GAMMA = 1
    """The factor."""
    BETA = 2
    """The summand."""
    EPSILON = 3
    """Added to the variance."""
    LAYOUT = 4


def validate(op: Signature) -> None:
    """Require images, three floats and the layout."""
    op.count(5, names=Input)
    main = op.tensor(Input.INPUT, {F16: 3, F32: 3}, rank=4)
    for index in (Input.GAMMA, Input.BETA, Input.EPSILON):
        op.scalar(index, scalar_float(main))
    op.scalar(Input.LAYOUT, BOOL)
    op.output(0, main, rank=4)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    channels_first = op.boolean(Input.LAYOUT)
    return (images_of(op, channels_first).dimensions(channels_first),)


INSTANCE_NORMALIZATION = OperationDefinition(OperationType.INSTANCE_NORMALIZATION, 3, validate, prepare)
