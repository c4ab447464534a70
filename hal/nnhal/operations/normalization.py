"""Normalizations: values are divided by what is around them.

L2_NORMALIZATION: vectors along an axis divided by their length.

LOCAL_RESPONSE_NORMALIZATION: each element is divided by a power of its neighbours' squares along an axis.
x / (bias + alpha * sum of the squares of up to ``radius`` elements on either side and of x itself) ** beta

INSTANCE_NORMALIZATION: each channel of each image is normalised to a given mean and deviation.
(x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and variance over the pixels
"""

from __future__ import annotations

from nnhal.operations.context import OperationContext
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import axis_of, require_output_quantization
from nnhal.operations.layout_rules import OnImages, along
from nnhal.operations.operand_types import BOOL, F16, F32, INT32, Q8A, Q8AS, QUANT8
from nnhal.operations.operands import (
    Inputs,
    newer_ranks,
    parameter,
    same,
    scalar,
    signature,
    tensor,
)
from nnhal.operations.windows import images_of
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class L2NormalizationInput(Inputs):
    INPUT = tensor({F32: 1, F16: 3, Q8A: 3, Q8AS: 4}, rank=(1, 4)), "Rank 1 to 4."
    AXIS = scalar(INT32, since=3), "The last one by default."


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
    signature(L2NormalizationInput, same(), fewest=1, further=[newer_ranks(4)]),
    prepare_l2_normalization,
    layout=along(L2NormalizationInput.AXIS, default=-1),
)


class LocalResponseNormalizationInput(Inputs):
    INPUT = tensor({F32: 1, F16: 3}, rank=(1, 4)), "Rank 1 to 4."
    RADIUS = scalar(INT32), "Neighbours on each side."
    BIAS = parameter(), "Added to the sum of squares."
    ALPHA = parameter(), "The factor of that sum."
    BETA = parameter(), "The exponent."
    AXIS = scalar(INT32, since=3), "The last one by default."


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
    signature(LocalResponseNormalizationInput, same(), fewest=5, further=[newer_ranks(4)]),
    prepare_local_response_normalization,
    layout=along(LocalResponseNormalizationInput.AXIS, default=-1),
)


class InstanceNormalizationInput(Inputs):
    INPUT = tensor({F16: 3, F32: 3}, rank=4), "Images."
    GAMMA = parameter(), "The factor."
    BETA = parameter(), "The summand."
    EPSILON = parameter(), "Added to the variance."
    LAYOUT = scalar(BOOL)


def prepare_instance_normalization(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    channels_first = op.boolean(InstanceNormalizationInput.LAYOUT)
    return (images_of(op, channels_first).dimensions(channels_first),)


INSTANCE_NORMALIZATION = OperationDefinition(
    OperationType.INSTANCE_NORMALIZATION,
    3,
    signature(InstanceNormalizationInput, same(rank=4)),
    prepare_instance_normalization,
    layout=OnImages(InstanceNormalizationInput.LAYOUT),
)
