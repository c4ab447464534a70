"""Normalizations: values are divided by what is around them.

L2_NORMALIZATION: vectors along an axis divided by their length.

LOCAL_RESPONSE_NORMALIZATION: each element is divided by a power of its neighbours' squares along an axis.
x / (bias + alpha * sum of the squares of up to ``radius`` elements on either side and of x itself) ** beta

INSTANCE_NORMALIZATION: each channel of each image is normalised to a given mean and deviation.
(x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and variance over the pixels
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import axis_of, require_output_quantization
from nnhal.operations.layout_rules import OnImages, along
from nnhal.operations.operand_types import BOOL, F16, F32, INT32, Q8A, Q8AS, QUANT8, scalar_float
from nnhal.operations.windows import images_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class L2NormalizationInput(IntEnum):
    INPUT = 0
    """Rank 1 to 4."""
    AXIS = 1
    """The last one by default."""


def validate_l2_normalization(op: Signature) -> None:
    """Require a tensor of rank up to 4. Ranks below 4, and the axis, need feature level 3."""
    op.count((1, 2), names=L2NormalizationInput)
    main = op.tensor(L2NormalizationInput.INPUT, {F32: 1, F16: 3, Q8A: 3, Q8AS: 4}, rank=(1, 4))
    if len(op.inputs[L2NormalizationInput.INPUT].dimensions) != 4:
        op.since(3)
    op.scalar(L2NormalizationInput.AXIS, INT32, since=3)
    op.output(0, main)


def prepare_l2_normalization(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions. A quantised output spans [-1, 1)."""
    dimensions = op.ranked(L2NormalizationInput.INPUT, (1, 4))
    axis_of(op, op.integer(L2NormalizationInput.AXIS, default=-1), len(dimensions))
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 128, 128 if op.main_type() == Q8A else 0)
    return (dimensions,)


L2_NORMALIZATION = OperationDefinition(
    OperationType.L2_NORMALIZATION,
    1,
    validate_l2_normalization,
    prepare_l2_normalization,
    layout=along(L2NormalizationInput.AXIS, default=-1),
)


class LocalResponseNormalizationInput(IntEnum):
    INPUT = 0
    """Rank 1 to 4."""
    RADIUS = 1
    """Neighbours on each side."""
    BIAS = 2
    """Added to the sum of squares."""
    ALPHA = 3
    """The factor of that sum."""
    BETA = 4
    """The exponent."""
    AXIS = 5
    """The last one by default."""


def validate_local_response_normalization(op: Signature) -> None:
    """Require a tensor of rank up to 4. Ranks below 4, and the axis, need feature level 3."""
    op.count((5, 6), names=LocalResponseNormalizationInput)
    main = op.tensor(LocalResponseNormalizationInput.INPUT, {F32: 1, F16: 3}, rank=(1, 4))
    if len(op.inputs[LocalResponseNormalizationInput.INPUT].dimensions) != 4:
        op.since(3)
    op.scalar(LocalResponseNormalizationInput.RADIUS, INT32)
    for index in (
        LocalResponseNormalizationInput.BIAS,
        LocalResponseNormalizationInput.ALPHA,
        LocalResponseNormalizationInput.BETA,
    ):
        op.scalar(index, scalar_float(main))
    op.scalar(LocalResponseNormalizationInput.AXIS, INT32, since=3)
    op.output(0, main)


def prepare_local_response_normalization(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    dimensions = op.ranked(LocalResponseNormalizationInput.INPUT, (1, 4))
    axis_of(op, op.integer(LocalResponseNormalizationInput.AXIS, default=-1), len(dimensions))
    if op.integer(LocalResponseNormalizationInput.RADIUS) < 0:
        op.refuse(f"radius {op.integer(LocalResponseNormalizationInput.RADIUS)}, expected 0 or more")
    return (dimensions,)


LOCAL_RESPONSE_NORMALIZATION = OperationDefinition(
    OperationType.LOCAL_RESPONSE_NORMALIZATION,
    1,
    validate_local_response_normalization,
    prepare_local_response_normalization,
    layout=along(LocalResponseNormalizationInput.AXIS, default=-1),
)


class InstanceNormalizationInput(IntEnum):
    INPUT = 0
    """Images."""
    GAMMA = 1
    """The factor."""
    BETA = 2
    """The summand."""
    EPSILON = 3
    """Added to the variance."""
    LAYOUT = 4


def validate_instance_normalization(op: Signature) -> None:
    """Require images, three floats and the layout."""
    op.count(5, names=InstanceNormalizationInput)
    main = op.tensor(InstanceNormalizationInput.INPUT, {F16: 3, F32: 3}, rank=4)
    for index in (
        InstanceNormalizationInput.GAMMA,
        InstanceNormalizationInput.BETA,
        InstanceNormalizationInput.EPSILON,
    ):
        op.scalar(index, scalar_float(main))
    op.scalar(InstanceNormalizationInput.LAYOUT, BOOL)
    op.output(0, main, rank=4)


def prepare_instance_normalization(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    channels_first = op.boolean(InstanceNormalizationInput.LAYOUT)
    return (images_of(op, channels_first).dimensions(channels_first),)


INSTANCE_NORMALIZATION = OperationDefinition(
    OperationType.INSTANCE_NORMALIZATION,
    3,
    validate_instance_normalization,
    prepare_instance_normalization,
    layout=OnImages(InstanceNormalizationInput.LAYOUT),
)
